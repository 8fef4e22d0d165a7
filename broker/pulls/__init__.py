"""What a pull gets, and the pulls that wait for a message.

- `checks.py`: what a pull has to pass, and what it filters by
- `tag_table.py`: expressions of tags, each parsed once
- `choosing.py`: pulls that choose by a condition over properties
- `decision.py`: what a pull gets of what was found: messages, a word of where to go on, or that it waits
- `held_pulls.py`: the pulls that wait; `refusals.py`: those that were refused
- `record_cache.py`: the newest records in RocketMQ's form
"""
