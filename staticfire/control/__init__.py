"""The control endpoint: what a test asks of a cluster over HTTP.

- `port.py`: opens it; `site.py`: answers; `hosts.py`: under which names; `view.py`: what it knows of a cluster
- `clock.py`: message time; `dlq.py`: dead letters; `journal.py`: what happened, and what was asked
- `group.py`: a consumer group; `faults.py`: what goes wrong on purpose
- `reset.py`: a cluster as if it were new; `health.py`: whether it can be used now
"""
