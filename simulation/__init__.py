"""Whole clusters in a simulated world: described, played from seeds, and checked.

- `world/`: virtual time, a simulated network and disk; nothing in it knows of brokers
- `workload/`: what a cluster does, and what may happen to it, as people describe it
- `checkers/`: promises that are checked; `runs/`: one run from a seed, and many
- `troubles/`: problems of RocketMQ's users as stories, each with what avoids it
"""
