"""What things cost when there are more of them: `make bench ARGS=--curves`.

- `curve.py`: a curve, its points, and how steeply a value grows
- `filling.py`: brokers with many topics, messages or members in them
- `sizes.py`: bodies and properties
- `numbers.py`: topics, connections, groups, members, delayed messages
- `stored.py`: stored messages: starts, recoveries, reads
- `record.py`: measures all of them, prints, and keeps what docs/performance.md is made of

Each point has a server process and a store of its own. What is told of a message is the broker's CPU time: it says the
same on a machine that others use, too.
"""
