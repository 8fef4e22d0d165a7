"""POP: messages become invisible for a while, and are acknowledged one by one. Brokers keep their state; no member owns
a queue.

- receiving.py: which broker gets the next request, and how to wait for messages of several
- pops_under_way.py: pops that were sent, including those that no `receive` waits for any more
- popped.py: reads the response to a pop: messages with their handles. Pure
- acknowledging.py: acknowledgements and changed invisible times, over connections
"""
