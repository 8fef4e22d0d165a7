"""What consumers can be set to, and the strategies that share out queues. Values; pure.

- push_settings.py, simple_settings.py, lite_pull_settings.py: the settings of each kind of consumer
- allocation.py, consistent_hash.py, machine_rooms.py: which member of a group gets which queues
"""
