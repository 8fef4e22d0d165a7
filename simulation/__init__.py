"""Whole clusters in a simulated world: described, run from seeds, and checked.

- `world/`: virtual time, a simulated network and disk; independent of brokers
- `workload/`: the description of a run: what a cluster does, and which faults may occur
- `checkers/`: the promises that are checked; `runs/`: one run from a seed, and many runs
- `troubles/`: problems of RocketMQ's users as scenarios, each with its fix
"""
