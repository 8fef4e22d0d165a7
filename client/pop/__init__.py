"""POP: messages taken for a while, and acknowledged one by one. Brokers keep who has what; queues belong to nobody.

- simple_consumer.py: a program that receives, acknowledges, and asks for more time; simple_settings.py
- receiving.py: which broker is asked next, and how it is waited for messages of several
- pops_under_way.py: pops that were sent, with those that no `receive` waits for any more
- popped.py: what an answer to a pop says: messages with their handles. Pure
- acknowledging.py: acknowledgements and changed invisible times, over connections
"""
