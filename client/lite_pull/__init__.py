"""The lite pull consumer: it pulls ahead by itself, and the program polls, seeks, pauses and commits.

- lite_pull_consumer.py: the class that programs use; pulling.py: its parts put together; lite_pull_admin.py: what it
  answers to administrators
- poll_buffer.py: what has been pulled and not yet polled; shared_flow.py: how much of it there may be
- polled_offsets.py: how far the program has polled, and what of it is committed
- chosen_queues.py: the queues that a program has assigned itself, instead of a share of its group's
- topic_watch.py: reports topics whose queues have changed
"""
