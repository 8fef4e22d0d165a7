"""The push consumer in pop mode: it pops from all queues of a broker instead of pulling single ones.

- pop_queue.py: **decides what happens next**, with a pop_policy.py; pure. pop_driver.py: executes it
- pop_queues.py: all queues that a consumer pops; pop_returns.py: messages that the consumer gives back
"""
