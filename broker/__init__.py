"""The broker: stores messages, delivers them, and keeps the groups' offsets.

`server.py` contains what clients are connected to. Behind it, `core.py` runs the parts in their order: what a start, a
burst and a stop do. The parts are created in `tables.py` (what the broker knows), `services.py` (what it does by
itself) and `request_families.py` (what it does for requests). Each part is given only those that it uses, and
`state.py`: the machine, settings, clock and store. `settings.py` contains the settings, `restoring.py` what a start
reads.

A request goes to `handlers/`, one module per family, which uses these packages and modules:

- `sends/`: checks of a new message, and its stored form
- `delay/`: messages with a delay level
- `timers/`: messages with a delivery time of their own, and their recall
- `waiting.py`: delayed messages, timers and transactions as one
- `transactions/`: messages in two halves, and checks of their outcome
- `pop/`: messages that consumers take for a limited time
- `pulls/`: the response to a pull, and the pulls that wait
- `static_topics/`: logical queues, spread over several brokers
- `groups/`: consumers and producers, the groups' offsets, retries and dead letters
- `access/`: users, policies and signatures
- `clock/`: message time, and whether the consumers are at rest
- `store/`: the log, its queues and their recovery
- `replication/`: a master's log and state, copied by slaves
- `snapshots/`: saving and restoring the broker's data
- `journal/`: a record of events and requests, if enabled
- `scrubbing.py`: reads the log in the background, to detect bit rot
- `topics.py`: the topics and their configurations
- `changes.py`: what a change of topics, groups or users waits for, and when none is accepted

Apart from the requests: `registration.py` (routes), `retention.py` and `disk_watch.py` (removal of old messages),
`orphan_topics.py` (topics that a kill left without configuration), `config_files.py` (small state files),
`key_index.py` (the key index follows the log) and `key_tables.py` (its tables), `statistics.py`, `put_times.py`
(durations of puts), `surprises.py` (reports of implicit actions), `metrics.py` (metrics for Prometheus),
`totals.py` (all topics and groups), `administration.py`.
"""
