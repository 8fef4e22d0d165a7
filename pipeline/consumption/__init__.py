"""What consumption was like, of any cluster: from traces, stored messages and the brokers' journals. Tables and a page.

A folder holds everything: `messages` (an ingest's table), `journal` and `progress` (what brokers said), `tables`.

- `settings.py`: what is asked for; `gathering.py`: brings it from a cluster; `noted.py`: journals and offsets as files
- `sources.py`: what there is as views: messages, attempts, deliveries, events; `views.py`: their SQL
- `queries.py`: the SQL of each table; `tables.py`: makes and writes them
- `job.py`: all of it; `following.py`: again and again from a running cluster
- `reading.py`, `findings.py`: what the page says, as plain values
"""
