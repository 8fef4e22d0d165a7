"""A real master and slave beside ours: the same requests to both masters and both slaves.

- pair.py: a master and its slave, and the requests; steps.py: what is requested, and what is compared of the responses
- stopwatch.py: whether a request waited, or the machine was busy
- notices.py: made-up brokers, which a nameserver notifies of the lowest id
- explained.py: differences that are meant to be
"""
