"""Messages of package apache.rocketmq.v2, as RocketMQ 5's clients send them.

- `rocketmq_v2.proto`: the description of the interface; `make protos` makes of it
- `rocketmq_v2_pb2.py`: the messages as classes; `messages.py`: how they become classes
- `wire.py`: fields packed by hand, for the message that is made most often
"""
