"""Runs a workload for one seed, or for many: a cluster on virtual time, random faults, checkers, a result.

- `play.py`: one run; `outcome.py`: its result; `record.py`: its events while it runs
- `measures.py`: duplicates, take-overs, idle queues and latencies of a run, as numbers
- `cluster.py`: the machines; `sending.py`, `consuming.py`, `members.py`: the clients
- `observing.py`: reads the state that no event reports; `contents.py`: what a message is;
  `looking_up.py`: searches by id and key
- `planning.py`: chooses the faults and their times; `striking.py`: carries them out; `administering.py`: those of
  administrators; `disk_trouble.py`: those of a disk
- `swarm.py`: the workload of a seed, if there is no file; `swarm_kinds.py`: additions for some seeds;
  `swarm_replicas.py`: slaves for some
- `replicas.py`: masters and slaves; `striking_replicas.py`: their faults; `striking_sets.py`: several at once
- `ends.py`: what ends a fault
- `interest.py`: counts interesting states; `shrinking.py`: reduces a failing run
- `many.py`: many seeds on all cores; `seeds.py`: how seeds are written
- `trace_page.py`: a run as a page (trace.html); `lessons.py`: what a failed run teaches
"""
