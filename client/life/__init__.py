"""The life of a message: what store, journal, offsets and traces know of it, put together. staticfire's own.

- facts.py: what is known; pure
- timeline.py: what that tells, in order; pure
- places.py: what a record tells of a message, by the topic in which it lies; pure
- gathering.py: reads a cluster, RocketMQ's too; trace_reading.py: reads traces
"""
