"""The journal: what happened on a broker, and the requests that it received, for later analysis. Off by default.

An event is noted as a small struct with the uptime. Received data is kept as it was read. Neither is processed until a
client requests it: then both become records (protocol/requests/journal.py) with real time and message time. Both logs
are bounded. The oldest chunk of events is moved to the spill file; if that is full, too, the chunk is dropped and
counted.

- `ring.py`: the entries in memory, chunk by chunk; `spill.py`: the files for older chunks
- `events.py`: notes events of members, locks, deliveries and dead letters; `watched.py`: the tables that report them
- `received.py`: the received data
- `reading.py`: converts events to records, and selects records; `request_reading.py`: converts received data to records
- `logs.py`: combines both logs of a broker
"""
