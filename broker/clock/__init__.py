"""Message time of one broker.

- `message_clock.py`: the current message time
- `due_loop.py`: a loop that carries out what is due
- `control.py`: requests by which the nameserver, which owns the time, sets it and has due messages delivered
- `progress.py`: what was delivered to groups from each queue, and what they sent back
- `quiescence.py`: whether the consumers are at rest, and the reasons if not
"""
