"""Message traces: written by producers and consumers that are told to, read back by message id.

- writer.py: gathers traces and sends them, in the background; tracing.py: what a producer and a consumer write
- reading.py: the life of one message, as its traces tell it
"""
