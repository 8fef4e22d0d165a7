"""One queue of a consumer: pulled, delivered, committed, given away.

- queue_decisions.py: **decides what happens next**; pure. It is given a policy.py: concurrent_policy.py (any order)
  or ordered_policy.py (in order, with a held_lock.py)
- instructions.py: what it decides; queue_driver.py: carries that out: pulls over connections, offsets;
  queue_timers.py: when each queue is looked at again
- pull_failures.py: what follows from a pull that failed
- process_queue.py, flow_control.py: what is cached of a queue, and how much of it may be; time_limits.py: what of it
  is in consumption for too long
- consumer_state.py: what the queues of one consumer have in common; statistics.py: how fast they are consumed
"""
