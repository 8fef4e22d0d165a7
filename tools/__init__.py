"""Generators and helpers for the project; run them as `python -m tools.<name>` in its top folder.

- `docs.py`: the generated parts of docs/, from `commands.py` (requests and commands), `command_line.py` (flags),
  `compatibility.py` (what works), `configuration.py` (settings), `performance.py` (curves), `simulation.py` (faults,
  promises, mutants), `troubles.py` (their numbers), `figures.py` (the figures of README) and `decisions.py` (their
  list); `generated.py`: finds these parts in a document
- `constraints.py`: constraints.txt; `spark_archive.py`: an archive of what executors need
- `public_api.py`: docs/public-api.txt, the names and signatures that programs may rely on
- `release/`: `make release-check`, whether a release can be built, installed and used
- `site_links.py`: links of docs/ on the site; `site_api.py`: its page of the Python API; `recording.py`: the
  command-line session in README
- `protos.py`: the messages of the gRPC endpoint
- `covered/`: what `make coverage` adds to each Python process
- `oracle.sh`, `docker_engine.sh`, `chromium.sh`: a real RocketMQ, a Docker engine, a browser, where tests need one
"""
