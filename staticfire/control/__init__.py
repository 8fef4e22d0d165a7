"""The control endpoint: what a test asks of a cluster over HTTP.

- `port.py`: opens it; `site.py`: serves; `half_requests.py`: requests that never end
- `access.py`, `hosts.py`: who may ask; `view.py`: what it knows of a cluster
- `routes.py`: how a route is declared; `asked.py`: what its handler gets at; `all_routes.py`: all of them
- `openapi.py`: their description, for programs and for people
- `cluster.py`: the cluster as a whole; `health.py`: whether it can be used now; `reset.py`: as if it were new;
  `snapshots.py`: as it was, asked for in `putting_back.py`
- `metrics.py`: for Prometheus; `messages.py`: topics and messages; `group.py`: consumer groups
- `clock.py`: message time; `dlq.py`: dead letters; `journal.py`: what happened, and what was asked
- `faults.py`: what goes wrong on purpose
"""
