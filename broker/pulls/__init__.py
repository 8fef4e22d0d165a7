"""What a pull gets, and the pulls that wait for a message.

- `held_pulls.py`: the pulls that wait
- `record_cache.py`: the newest records in RocketMQ's form
"""
