"""What happened on a broker and what was asked of it, for whoever wants to know afterwards. Off unless it is wanted.

What happens is noted as a small struct, with the uptime; what comes in is kept as it came. Nothing is made of either
before somebody reads: then they become records (protocol/requests/journal.py) with both times. Both logs are bounded:
of events, the oldest chunk goes to the spill file, and when that is full, too, it is dropped and counted.

- `ring.py`: the entries, chunk by chunk; `spill.py`: the file behind it
- `events.py`: what is noted of members, locks, deliveries, deaths; `watched.py`: the tables that note it
- `heard.py`: what comes in
- `reading.py`: events as records, and which records are wanted; `request_reading.py`: reads as records of requests
- `logs.py`: both logs of a broker, put together
"""
