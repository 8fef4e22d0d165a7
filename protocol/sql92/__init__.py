"""Conditions on the properties of messages: `price > 100 AND region IN ('eu', 'us')`. RocketMQ's SQL92.

- `filters.py`: a compiled condition, the API of this package
- `tokens.py`, `grammar.py`: parse a condition
- `terms.py`: the parts of a condition, and the checks that they fit together
- `closures.py`: evaluate a condition
- `java_values.py`: numbers and texts as Java compares them; `faults.py`: errors with RocketMQ's texts
"""
