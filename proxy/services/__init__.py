"""What the endpoint does for each call. RocketMQ: the activities of its proxy, in cluster mode.

- `service.py`: the parts put together, methods by path; `callers.py`: who calls; `statuses.py`: how calls end

The calls:

- `routing.py`: where topics are; `sending.py`: messages on their way to brokers; `receiving.py`: to clients
- `acknowledging.py`: messages done, needed for longer, given up; `transactions.py`: how transactions end, and recalls
- `telemetry.py`: settings and commands; `questions.py`: what administrators ask of clients;
  `presence.py`: heartbeats and goodbyes

What they stand on, with no idea of calls:

- `known_cluster.py`: routes, types, groups; `message_time.py`: the clock that receipts expire by
- `client_table.py`: who is known here
- `receipt_work.py`: what is done at brokers with a receipt; `held_messages.py`: messages held for who works on them
- `background.py`: work that nobody waits for

Pure:

- `names.py`, `sent_messages.py`, `message_types.py`: checks, and what is stored; `message_groups.py`: which queue
- `received_messages.py`, `packed_answers.py`, `popped.py`, `receipts.py`: what clients get, and acknowledge by
- `client_settings.py`: what clients are told; `open_transactions.py`: what can still be ended
- `pb_times.py`: times and durations of protobuf
"""
