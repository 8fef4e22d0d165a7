"""The settings of consumers, and the strategies to distribute queues. Values; pure.

- push_settings.py, simple_settings.py, lite_pull_settings.py: the settings of each kind of consumer
- allocation.py, consistent_hash.py, machine_rooms.py: which member of a group gets which queues
"""
