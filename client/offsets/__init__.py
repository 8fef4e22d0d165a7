"""A group's progress: where a queue starts, which offsets are committed, and where they are stored.

- consume_from.py: where a queue without a stored offset starts; queue_start.py: finds that offset; message_time.py: the
  current message time
- offset_store.py: stored at the brokers (CLUSTERING); local_offsets.py: in a file (BROADCASTING); queue_offsets.py:
  queries and commits
"""
