"""A master's log and state, copied by slaves.

- `epochs.py`: which broker was the master when; the position up to which two logs are the same. Pure
- `followers.py`: what each slave has stored, and which of them are in sync. Pure
- `lineage.py`: the file with the identity of the log, its epochs and the broker's role
- `source.py`: a master's answers to its slaves
- `waiting_sends.py`: sends that wait for copies
- `follower.py`: a slave copies the log; `copy_run.py`: one piece after another; `received_pieces.py`: each is stored
  when its time has come; `copy_fence.py`: the copy stops while another slave takes over
- `state_copy.py`: topics, groups and offsets of the master become the slave's; `state_rounds.py`: when
- `slave_front.py`: what a slave refuses; `enough_replicas.py`: what a synchronous master refuses
- `awaited_changes.py`: changes of topics, groups and users that wait for copies; `master_fence.py`: a master that hands
  over refuses them
- `losing.py`: which records count as messages when a failover loses some
- `role_change.py`, `between_cores.py`: a broker becomes master or slave
- `ha_status.py`: the state in the form of RocketMQ's `haStatus`
- `successor.py`: the broker that has become the master meanwhile; `succession.py`: what a master does about it
- `member.py`: all of this for one broker; `part.py`: its interface for the rest of the broker;
  `around.py`: what it uses of the rest
"""
