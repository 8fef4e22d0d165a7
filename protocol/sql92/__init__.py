"""Conditions over the properties of messages: `price > 100 AND region IN ('eu', 'us')`. RocketMQ's SQL92.

- `filters.py`: a condition, compiled, and its face
- `tokens.py`, `grammar.py`: how it is read
- `terms.py`: what it consists of, and which parts fit together
- `closures.py`: how it is evaluated
- `java_values.py`: numbers and texts as Java compares them; `faults.py`: what is wrong, in RocketMQ's words
"""
