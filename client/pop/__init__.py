"""POP: messages taken for a while, and acknowledged one by one. Brokers keep who has what; no member owns a queue.

- receiving.py: which broker is requested next, and how to wait for messages of several
- pops_under_way.py: pops that were sent, with those that no `receive` waits for any more
- popped.py: what an answer to a pop says: messages with their handles. Pure
- acknowledging.py: acknowledgements and changed invisible times, over connections
"""
