"""The gRPC endpoint for RocketMQ 5's clients (package apache.rocketmq.v2). RocketMQ: its proxy in cluster mode.

It is a client of the cluster, in a process of its own. It needs the extra `staticfire[grpc]`.

- `server.py`: builds and starts the parts; `settings.py`: its settings
- `proto/`: the messages
- `transport/`: how requests arrive and responses leave
- `services/`: what is done for each call
"""
