"""Groups: their members, how far they have consumed, and what happens to messages that they can't consume.

- `tables.py`: all tables about groups, together
- `subscription_groups.py`: the configuration of each consumer group
- `consumers.py`, `producers.py`: the members that are online
- `protection.py`: protection of a group against members that often join and leave
- `version_fence.py`: checks whether a member's subscription is outdated
- `findings.py`: finds members of a group that don't fit together
- `offsets.py`: committed offsets, and the latest resets; `offset_check.py`: compares offsets with the log at the start
- `pending_resets.py`: resets that wait for the owner of the queue
- `first_offsets.py`: where a new group begins, if it begins at the end of a queue
- `late_commits.py`: commits of a member whose queue another member has by now
- `queue_locks.py`: the queues that ordered consumers have locked; `held_back.py`: counts waiting messages by topic
- `retries.py`: whether and when a failed message is redelivered, or is dead; `dead_letters.py`: the dead-letter topics
"""
