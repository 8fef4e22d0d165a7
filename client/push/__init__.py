"""The push consumer: it calls a listener with messages as they arrive.

- push_consumer.py: the class that programs use; push_parts.py: its parts put together
- push_admin.py: its responses to administrators
"""
