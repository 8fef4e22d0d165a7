"""What the endpoint does for each call. RocketMQ: the activities of its proxy, in cluster mode.

- `service.py`: builds the parts; `callers.py`: the client of a call; `statuses.py`: how calls end
- `access.py`: whether a client may do it, which brokers decide; `judges.py`: which broker is queried

The calls:

- `routing.py`: routes of topics; `sending.py`: messages to brokers; `receiving.py`: messages to clients
- `acknowledging.py`: acknowledge, extend the invisible time, dead letters; `transactions.py`: end transactions, recall
- `telemetry.py`: settings and commands; `questions.py`: requests of administrators to clients
- `presence.py`: heartbeats and terminations

What the calls use, independent of gRPC calls:

- `known_cluster.py`: routes, topic types, groups; `message_time.py`: the clock by which receipts expire
- `client_table.py`: the known clients
- `receipt_work.py`: requests to brokers about receipts; `held_messages.py`: messages whose invisible time is renewed
- `background.py`: tasks that no call waits for

Pure:

- `access_needs.py`: what each call needs, and what it says about its user
- `names.py`, `sent_messages.py`, `message_types.py`: checks, and what is stored
- `message_groups.py`: the queue of a message group
- `received_messages.py`, `receipts.py`: messages for clients, and receipt handles
- `client_settings.py`: the settings for clients; `open_transactions.py`: transactions that can still be ended
- `pb_times.py`: times and durations of protobuf
"""
