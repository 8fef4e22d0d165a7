"""Stores messages, hands them out, and keeps what groups have consumed.

`server.py` is what clients are connected to; behind it `core.py` puts the parts together, `state.py` is what they
share, `settings.py` what can be set.

A request comes to `handlers/`, one module per family, and is answered with what is in these rooms:

- `sends/`: what a message has to pass, and the form in which it is stored
- `delay/`: messages that wait, behind one door
- `timers/`: messages with a delivery time of their own, and their recall
- `transactions/`: messages in two halves, and the question what has become of them
- `pop/`: messages taken for a while
- `pulls/`: what a pull gets, and the pulls that wait
- `static_topics/`: logical queues, on whichever brokers they are
- `groups/`: who consumes and produces, how far groups have come, what becomes of failed messages
- `clock/`: message time, and whether the consumers have come to rest
- `store/`: the log, its queues and their recovery
- `snapshots/`: what it has, put away and put back
- `journal/`: what happened and what was asked, if it is kept
- `scrubbing.py`: reads the log in the background, to tell of what has rotted
- `topics.py`: which topics there are

Beside the requests: `registration.py` (routes), `retention.py` and `disk_watch.py` (what goes), `orphan_topics.py`
(topics that a kill left without configuration), `config_files.py` (the small state on the disk), `key_index.py` (keys
follow the log) and `key_tables.py` (where they are kept), `statistics.py`, `put_times.py` (how long puts took),
`surprises.py` (what nobody has asked for),
`metrics.py` (what Prometheus is told), `administration.py`.
"""
