"""RocketMQ's own mqadmin against a cluster of staticfire: each command, and what its output must say.

    python -m tools.mqadmin

`calls.py` has the commands, as data; `__main__.py` plays them and prints a table; `Member.java` is a real producer and
a real consumer for them to look at. mqadmin exits with 0 when it fails, too, so its output is what counts.
"""
