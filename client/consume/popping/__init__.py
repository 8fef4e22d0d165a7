"""The push consumer where it pops: a broker's queues instead of one queue.

- pop_queue.py: **decides what happens next**, with a pop_policy.py; pure. pop_driver.py: carries it out
- pop_queues.py: all of them; pop_returns.py: messages that the consumer gives back
"""
