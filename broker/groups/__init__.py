"""Groups: who is in them, how far they have come, what becomes of what they could not consume.

- `subscription_groups.py`: how each consumer group is set up
- `consumers.py`, `producers.py`: the members that are online
- `protection.py`: against members that come and go
- `version_fence.py`: whether a member's subscription is outdated
- `findings.py`: members that don't go together
- `offsets.py`: what groups have committed, and the latest resets; `offset_check.py`: whether the log has so much
- `pending_resets.py`: resets that wait for the owner of the queue
- `first_offsets.py`: where a new group begins that begins at the end
- `late_commits.py`: commits of a member whose queue another one has by now
- `queue_locks.py`: the queues that ordered consumers have locked; `held_back.py`: messages that wait, counted by topic
- `retries.py`: whether a failed message comes again, when, or is dead; `dead_letters.py`: where the dead go
"""
