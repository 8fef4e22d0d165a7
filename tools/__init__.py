"""What writes or starts something for the project; run as `python -m tools.<name>` from its top folder.

- `docs.py`: the generated parts of docs/, of `commands.py` (requests and commands), `compatibility.py` (what works),
  `performance.py` (curves) and `simulation.py` (faults, promises, mutants);
  `generated.py`: where in a document they stand
- `constraints.py`: constraints.txt
- `protos.py`: the messages of the gRPC endpoint
- `covered/`: what `make coverage` puts into each Python process
- `oracle.sh`, `docker_engine.sh`, `chromium.sh`: a real RocketMQ, a Docker engine, a browser, where tests need one
"""
