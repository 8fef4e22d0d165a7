"""Real RocketMQ clients, each from its registry, against a cluster: `make test-clients`.

- `toolchains.py`: the clients, and what they need; a folder for each has its driver
- `administering.py`: topics of a type, and groups, made for them
- `behaviours.py`: what is asked of every client; `driving.py`: asks it; `our_side.py`: our client
  beside it
- `access.py`: each client with right and wrong keys, without permissions, and with TLS
- `foreign_proxy.py`: RocketMQ's proxy between clients and our brokers: `make test-proxy`
- `quick_starts.py`: the programs of docs/clients-5x.md, as they stand there
"""
