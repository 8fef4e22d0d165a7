"""What RocketMQ's own strategies answer: `cases.jsonl`, written by `python -m tests.allocation` from RocketMQ's jars.

- `Allocate.java` runs RocketMQ's classes; `cases.py` is a case, as it lies in the file and as it goes to Java
- `test_mixed_groups.py`: members of RocketMQ's client (`Members.java`) in a group with ours
- `jars.py`: where the jars come from
"""
