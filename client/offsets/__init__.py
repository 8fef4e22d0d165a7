"""How far a group has come: where a queue starts, what is committed, and where that is kept.

- consume_from.py: where a queue without a stored offset starts; queue_start.py finds it, message_time.py since when
- offset_store.py: at the brokers (CLUSTERING); local_offsets.py: in a file (BROADCASTING); queue_offsets.py: questions
"""
