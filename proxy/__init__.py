"""The endpoint for RocketMQ 5's clients: gRPC, package apache.rocketmq.v2. RocketMQ: its proxy in cluster mode.

It is a client of the cluster, in a process of its own; it needs the extra `staticfire[grpc]`.

- `server.py`: the parts in order; `settings.py`
- `proto/`: the messages
- `transport/`: how calls arrive and answers leave
- `services/`: what is done for each call
"""
