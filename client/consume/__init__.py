"""Consumption: pulls, listeners, and what becomes of their answers.

- push_consumer.py: the push consumer; push_parts.py: its parts put together; push_settings.py
- pull.py: a consumer that drives itself
- pull_loop.py, pull_answers.py, flow_control.py: the pulls of one queue
- process_queue.py, concurrent_consumption.py, consume_results.py, send_back.py: messages in any order
- locked_queues.py, ordered_queue.py, ordered_consumption.py, ordered_calls.py, ordered_results.py: messages in order
- worker_pool.py, threaded_calls.py: how many listeners run at once, and where; listener_errors.py: what they raise
"""
