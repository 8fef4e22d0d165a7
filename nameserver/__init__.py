"""The nameserver: it keeps which brokers exist and which queues each topic has.

- `server.py`: starts and stops the parts; `state.py`: what the handlers share; `settings.py`
- `handlers/`: the request handlers, one module per family of requests
- `route_table.py`: brokers, their topics and their liveness; `views.py`: what clients and tools see of it
- `advertised_addresses.py`: the address at which a client can reach a broker
- `min_broker_ids.py`, `min_id_notices.py`: notify a broker's replicas when their lowest id changes
- `controller.py`: masters, slaves and elections, for RocketMQ's tools
- `kv_config.py`: key-value configuration
- `clock_owner.py`: moves message time on all brokers together; `following_brokers.py`: its requests to them
"""
