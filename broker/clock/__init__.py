"""Message time of one broker.

- `message_clock.py`: what time it is
- `due_loop.py`: what falls due is carried out then
- `control.py`: how the nameserver, which owns the time, sets it and has due messages delivered
- `progress.py`: what groups have been given of each queue, and what of it came back
- `quiescence.py`: whether the consumers have come to rest, and if not, why
"""
