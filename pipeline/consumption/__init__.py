"""Statistics of consumption, for any cluster, from traces, stored messages and brokers' journals. Tables and a page.

One folder holds everything: `messages` (an ingest's table), `journal` and `progress` (from the brokers), `tables`.

- `settings.py`: the settings; `gathering.py`: gets the data from a cluster, `journals.py`: from brokers' journals;
  `noted.py`: journals and offsets as files; `gaps.py`: what the data lacks
- `sources.py`: the data as views: messages, attempts, deliveries, events; `views.py`: their SQL
- `queries.py`: the SQL of each table; `tables.py`: makes and writes them
- `job.py`: all steps once; `following.py`: repeatedly, from a running cluster
- `reading.py`, `findings.py`: the content of the page, as plain values
"""
