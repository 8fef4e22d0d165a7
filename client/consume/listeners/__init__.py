"""How a program's listener is called.

- concurrent_consumption.py: in any order; ordered_consumption.py, ordered_calls.py: queue by queue
- threaded_calls.py: plain functions, in threads; worker_pool.py: how many run at once
- hooked_listener.py: with hooks around it; consumer_tracing.py: the hook that writes traces;
  unexpired_listener.py: without popped messages whose time is over
- send_back.py: failed messages are sent back to their broker
"""
