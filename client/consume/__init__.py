"""Consumption, shared by all kinds of consumers.

- `queues/`: decides what to do next with one queue, and does it
- `listeners/`: how a program's listener is called; `results/`: what it returns and raises, and hooks around it
- `popping/`: the same as `queues/`, for queues whose messages are popped
- `membership/`: how a consumer joins its group, gets its queues, responds to administrators, and leaves
"""
