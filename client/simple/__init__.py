"""The simple consumer: a program receives messages, acknowledges each, and extends its time.

- simple_consumer.py: the class that programs use; simple_admin.py: what it answers to administrators
"""
