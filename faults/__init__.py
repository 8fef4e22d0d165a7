"""Virtual time, a simulated network and disk, faults, and whole clusters that are played with them.

- `simulation/`: the world; nothing in it knows of brokers
- `workload/`: what a cluster has to do, and what may happen to it, as people describe it
- `checkers/`: what has to be true; `runs/`: a run from a seed, and many
"""
