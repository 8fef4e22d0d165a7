"""What RocketMQ's own small classes answer: `facts.jsonl`, written by `python -m tests.javafacts` from RocketMQ's jars.

Names with a namespace, unique ids, compressed bodies, how long a slow broker is kept away from.

- `Facts.java` runs the classes; `facts.py` reads the file for the tests that compare
- `test_neighbours.py`: a program of RocketMQ's client (`Neighbour.java`) in a namespace beside ours
"""
