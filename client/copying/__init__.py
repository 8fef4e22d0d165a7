"""Copies a topic and its groups' offsets from one cluster to another, such as from production to a test cluster.

The source is only read: pulls in the name of RocketMQ's own tools group, and queries of offsets. Nothing is committed
or created there.

- `plan.py`: the target queue of each queue, the messages that are there already, groups' offsets in the copy; pure
- `queue_copy.py`: the messages of one queue; `copier.py`: the whole copy
"""
