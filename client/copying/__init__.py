"""A topic and its groups' offsets, copied from one cluster to another: from production to the stand.

The source is only read: pulls of RocketMQ's own tools group, offsets asked for, nothing committed and nothing created.

- `plan.py`: which queue goes where, what is there already, where groups stand in the copy; pure
- `queue_copy.py`: the messages of one queue; `copier.py`: all of it
"""
