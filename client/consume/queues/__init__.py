"""One queue of a consumer: pull, deliver, commit, give away.

- queue_decisions.py: **decides what happens next**; pure. It works with a policy.py: concurrent_policy.py (any order)
  or ordered_policy.py (in order, with a held_lock.py)
- instructions.py: the decisions, as values; queue_driver.py: executes them: pulls over connections, offsets;
  queue_timers.py: one timer per queue
- pull_failures.py: what to do after a failed pull; replica_in_use.py: which replica of a broker is pulled from
- process_queue.py, flow_control.py: the messages cached of a queue, and the limits of that cache; time_limits.py:
  messages whose consumption takes too long
- consumer_state.py: the state that all queues of a consumer share; statistics.py: how fast they are consumed
"""
