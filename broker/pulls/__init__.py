"""The outcome of a pull, and the pulls that wait for a message.

- `checks.py`: the checks of a pull, and its filter
- `choosing.py`: pulls with a filter by properties
- `decision.py`: whether a pull gets messages, an offset from which to continue, or waits
- `held_pulls.py`: the pulls that wait; `refusals.py`: those that were refused
- `deliveries.py`: notes what was delivered, for progress, statistics and the journal
- `record_cache.py`: a cache of the newest records in RocketMQ's format
"""
