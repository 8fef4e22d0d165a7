"""What writes or starts something for the project; run as `python -m tools.<name>` from its top folder.

- `docs.py`: the generated parts of docs/, of `commands.py` (requests and commands), `command_line.py` (flags),
  `compatibility.py` (what works), `configuration.py` (settings), `performance.py` (curves), `simulation.py` (faults,
  promises, mutants) and `troubles.py` (their numbers); `generated.py`: where in a document they stand
- `constraints.py`: constraints.txt; `spark_archive.py`: what executors need, as an archive
- `site_links.py`: links of docs/ on the site; `recording.py`: the session at the command line in README
- `protos.py`: the messages of the gRPC endpoint
- `covered/`: what `make coverage` puts into each Python process
- `oracle.sh`, `docker_engine.sh`, `chromium.sh`: a real RocketMQ, a Docker engine, a browser, where tests need one
"""
