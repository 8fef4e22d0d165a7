"""The messages of package apache.rocketmq.v2, as RocketMQ 5's clients send them.

- `rocketmq_v2.proto`: the definition; `make protos` generates `rocketmq_v2_pb2.py` from it
- `rocketmq_v2_pb2.py`: the serialized definition; `messages.py`: makes classes from it
- `wire.py`: encodes fields by hand, for the message that is sent most often
"""
