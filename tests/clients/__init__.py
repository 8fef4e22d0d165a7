"""Real RocketMQ clients, each from its registry, against a cluster: `make test-clients`.

- `toolchains.py`: the clients, and what they need; a folder for each has its driver
- `administering.py`: topics of a type, and groups, made for them
- `behaviours.py`: what is asked of every client; `driving.py`: asks it; `our_side.py`: our client
  beside it
"""
