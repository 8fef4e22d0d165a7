"""`staticfire mqadmin`: commands of RocketMQ's mqadmin that quick starts and scripts use, with their flags and output.

    mqadmin updateTopic -n namesrv:9876 -c DefaultCluster -t orders

What is printed is what RocketMQ's prints, column by column: `make test-mqadmin` compares them. Different are failures
(1 and one line; there: 0 and a stack trace) and routes, which are JSON that parses. The rest of the 89 commands isn't
here: RocketMQ's own mqadmin works against staticfire, too.

- `frame.py`: the group, which loads a command's module when it is called; flags and questions that they share
- `topics.py`, `groups.py`, `offsets.py`, `settings.py`: what can be changed; `nameservers.py`: their key-value table,
  and whether producers see a broker
- `cluster.py`: brokers and their figures; `progress.py`: how far groups have come; `members.py`: who is connected
- `look_ups.py`: messages by id, key and place; `reading.py`: those of queues; `sending.py`: new ones
- `tables.py`, `java_text.py`: how RocketMQ prints things; `shown_messages.py`: messages in full, and who has
  consumed them; `running_info.py`: a member's own words; `versions.py`: numbers that clients say
"""

from staticfire.cli.mqadmin.frame import mqadmin

__all__ = ["mqadmin"]
