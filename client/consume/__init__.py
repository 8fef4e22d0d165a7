"""Consumption, whatever kind of consumer it is for.

- `queues/`: what happens next about one queue, and who carries it out
- `listeners/`: how a program's listener is called; `results/`: what it returns and raises, and hooks around it
- `popping/`: the same as `queues/` for a broker's queues that are popped
- `membership/`: how a consumer joins its group, gets its share of the queues, answers administrators, and leaves
"""
