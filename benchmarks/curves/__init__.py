"""How costs grow with the number of topics, connections, messages ...: `make bench ARGS=--curves`.

- `curve.py`: a curve, its points, and how fast a value grows
- `filling.py`: brokers with many topics, messages or members
- `sizes.py`: bodies and properties
- `numbers.py`: topics, connections, groups, members, delayed messages
- `stored.py`: stored messages: starts, recoveries, reads
- `record.py`: measures all curves, prints them, and stores them for docs/performance.md

Each point has its own server process and store. Costs per message are the broker's CPU time, because other programs on
the machine affect it less.
"""
