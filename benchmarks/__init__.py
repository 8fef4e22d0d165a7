"""What staticfire reaches on this machine, beside a bare echo server: `make bench`. Nothing here is imported by it.

- `figures/`: what is measured, by family; `goals.py`: what is wanted; `report.py`: the table and the file
- `parts/`: single parts in one process, for whoever looks for the reason
- `machine.py`: cores, CPU time and memory; `servers.py`: server processes; `echo.py`: the server to compare with
- `load.py`: the load; `pop_load.py`: pops; `frames.py`: its requests; `asking.py`: one request at a time
- `grpc_load.py`: calls of a gRPC endpoint; `grpc_receive_load.py`: receives
- `consuming.py`, `consumer.py`: a push consumer in a process of its own
- `spark.py`, `spark_run.py`, `spark_baseline.py`: reading with Spark; `spark_sink.py`: writing, and sweeps
- `oracle.py`: the same against a real RocketMQ
- `curves/`: what more topics, connections, messages cost; `recorded/`: what docs/performance.md is made of
- `soak.py`: does anything grow?
"""
