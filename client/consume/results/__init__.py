"""What a listener returns and raises, and the hooks around it. Values; pure.

- consume_results.py, ordered_results.py: what listeners receive and return
- hooks.py: hooks around pulls, rebalances and consumption
"""
