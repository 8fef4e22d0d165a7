"""How a program's listener is called.

- concurrent_consumption.py: in any order, concurrent_results.py: what follows from the results; ordered_consumption.py,
  ordered_calls.py: in order, per queue
- threaded_calls.py: plain functions, in threads; worker_pool.py: how many run at once
- hooked_listener.py: with hooks around it; consumer_tracing.py: the hook that writes traces; unexpired_listener.py: not
  for popped messages whose invisible time has ended
- send_back.py: sends failed messages back to their broker
"""
