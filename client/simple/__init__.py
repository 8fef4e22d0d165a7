"""The simple consumer: a program receives messages, acknowledges each, and can extend its invisible time.

- simple_consumer.py: the class that programs use; simple_admin.py: its responses to administrators
"""
