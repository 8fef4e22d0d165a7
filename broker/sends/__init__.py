"""The checks of a message before it is stored, and the form in which it is stored.

- `targets.py`: the topics that accept messages, and why others don't
- `intake.py`: messages that need more than an append, since they are delayed or may be dead letters
- `sending.py`: the properties of a message, and how it is refused
- `not_built.py`: refuses features that are not implemented, or turned off by a setting
- `new_topics.py`: sends that wait until the nameservers have their topic
"""
