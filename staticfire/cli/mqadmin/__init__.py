"""`staticfire mqadmin`: commands of RocketMQ's mqadmin that quick starts and scripts use, with their flags and output.

    mqadmin updateTopic -n namesrv:9876 -c DefaultCluster -t orders

The output is the same as RocketMQ's, column by column: `make test-mqadmin` compares them. There are three differences:
failures (here exit code 1 and one line for each server; there 0 and a stack trace), routes, which here are valid JSON,
and control characters of messages, which here are shown as text. The rest of the 89 commands isn't here: RocketMQ's own
mqadmin works with staticfire, too.

- `frame.py`: the group, which loads a command's module when it is called; flags and requests that they share;
  `servers.py`: one of several servers that fails; `output.py`: what they print, and the names of files that they write
- `topics.py`, `groups.py`, `offsets.py`, `settings.py`: change these; `nameservers.py`: their key-value table,
  and whether producers see a broker
- `cluster.py`: brokers and their statistics; `replication.py`: their slaves;
  `progress.py`: offsets and lag of groups; `members.py`: connected clients
- `look_ups.py`: messages by id, key and offset; `reading.py`: messages of queues; `sending.py`: send messages
- `tables.py`, `java_text.py`: RocketMQ's output formats; `shown_messages.py`: messages in full, and the groups that
  consumed them; `running_info.py`: a member's own report; `versions.py`: version numbers of clients
"""

from staticfire.cli.mqadmin.frame import mqadmin

__all__ = ["mqadmin"]
