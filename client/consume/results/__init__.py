"""What a listener returns and raises, and what a program can have called around it. Values; pure.

- consume_results.py, ordered_results.py: what listeners get and return
- listener_errors.py: what they raise; hooks.py: hooks around pulls, rebalances and consumption
"""
