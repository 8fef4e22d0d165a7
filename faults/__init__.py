"""What goes wrong on purpose: on a cluster that runs, and on whole clusters that are played in a world of ours.

- `rules/`: on a running cluster, by rules that are added and removed; servers and clients import it
- `simulation/`: the world, with virtual time, a simulated network and disk; nothing in it knows of brokers
- `workload/`: what a cluster has to do, and what may happen to it, as people describe it
- `checkers/`: what has to be true; `runs/`: a run from a seed, and many
- `troubles/`: what people suffer from, told as stories with what avoids it
"""
