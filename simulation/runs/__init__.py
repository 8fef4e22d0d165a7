"""One seed, or many: a cluster with its clients on virtual time, faults that come by chance, checkers, a verdict.

- `play.py`: one run; `outcome.py`: what it came to; `record.py`: what is kept while it goes on
- `measures.py`: duplicates, take-overs, idle queues and latencies of a run, as numbers
- `cluster.py`: the machines; `sending.py`, `consuming.py`, `members.py`: what clients do
- `observing.py`: what no event reports
- `planning.py`: which faults come when; `striking.py`: carries them out; `administering.py`: those that
  administrators want; `disk_trouble.py`: those of a disk
- `swarm.py`: a workload that a seed makes up; `swarm_kinds.py`: what some seeds have besides
- `interest.py`: states worth counting; `shrinking.py`: a run with less
- `many.py`: many seeds on all cores; `seeds.py`: how a seed is written; `trace_page.py`: a run as a page (trace.html)
"""
