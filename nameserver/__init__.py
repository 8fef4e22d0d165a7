"""Which brokers there are and which queues each topic has.

- `server.py`: the parts in order; `state.py`: what they share; `settings.py`
- `handlers/`: what is answered, one module per family of requests
- `route_table.py`: brokers and their topics, and whether they live; `views.py`: what clients and tools are shown of it
- `advertised_addresses.py`: the address of a broker that a client gets
- `kv_config.py`: key-value configuration
- `clock_owner.py`: message time, moved on all brokers together
"""
