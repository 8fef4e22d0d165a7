"""Consumption: pulls, listeners, and what becomes of their answers.

- push_consumer.py: the push consumer; push_parts.py: its parts put together; push_settings.py
- membership.py: how a consumer joins its group and leaves it; consumer_state.py: what its queues have in common
- queue_decisions.py: **what is done next about one queue**: pulled again, delivered, committed, given away. Pure.
  It is given a policy.py: concurrent_policy.py (any order) or ordered_policy.py (in order, with a held_lock.py)
- pull_failures.py: what follows from a pull that failed
- instructions.py: what comes out of it; queue_driver.py: carries that out: pulls over connections, offsets;
  queue_timers.py: when each is looked at again
- process_queue.py, flow_control.py: what is cached of a queue, and how much of it may be; time_limits.py: what of it
  is in consumption for too long
- concurrent_consumption.py, threaded_calls.py, consume_results.py: listeners called in any order
- pop_queue.py: the same as queue_decisions.py about a broker's queues that are popped, with a pop_policy.py;
  pop_queues.py: all of those; pop_driver.py: carries it out; pop_returns.py: what nobody consumes now;
  unexpired_listener.py: messages that come too late for their listener
- ordered_consumption.py, ordered_calls.py, ordered_results.py: listeners called queue by queue
- hooks.py: what a program can have called around all of it; hooked_listener.py: a listener with them; statistics.py
- worker_pool.py: how many listeners run at once; listener_errors.py: what they raise; send_back.py: failed messages
- version_adoption.py: what becomes of an outdated subscription; condition_check.py: do brokers filter by conditions
- pull.py: a consumer that drives itself; pull_answers.py: what an answer to a pull says
"""
