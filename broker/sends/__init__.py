"""What a message has to pass before it is stored, and the form in which it is stored.

- `targets.py`: the topics that take messages, and why others don't
- `intake.py`: what needs more than an append: messages that wait, or are dead on arrival
- `sending.py`: the properties of a message, and how it is refused
- `not_built.py`: what a message may ask for in vain where a setting says so
- `new_topics.py`: sends that wait until the nameservers know their topic
"""
