"""The lite pull consumer: it prefetches messages, and the program polls, seeks, pauses and commits.

- lite_pull_consumer.py: the class that programs use; pulling.py: its parts put together; lite_pull_admin.py: its
  responses to administrators
- poll_buffer.py: messages that are pulled and not yet polled; shared_flow.py: the limits of that buffer
- polled_offsets.py: how far the program has polled, and how much of that is committed
- chosen_queues.py: the queues that a program has assigned itself, instead of a share of its group's
- topic_watch.py: reports topics whose queues have changed
"""
