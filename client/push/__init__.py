"""The push consumer: it calls a listener with messages as they come.

- push_consumer.py: the class that programs use; push_parts.py: its parts put together
- push_admin.py: what it answers to administrators
"""
