"""The life of a message: combines store, journal, offsets and traces. Only staticfire has this.

- facts.py: what is known; pure
- timeline.py: the events in order; pure
- places.py: what a record means, depending on the topic that it is stored in; pure
- gathering.py: queries a cluster, also RocketMQ's; trace_reading.py: reads traces
"""
