"""Measure the performance on this machine, compared with a bare echo server: `make bench`. Not part of staticfire.

- `figures/`: the measurements, by family; `goals.py`: the goals; `report.py`: the table and the results file;
  `history.py`: the recorded runs, and what is worse than in them
- `parts/`: measurements of single parts in one process, to find the cause of a change
- `machine.py`: cores, CPU time and memory; `servers.py`: server processes; `echo.py`: the server to compare with
- `load.py`: the load generator; `pop_load.py`: pops; `frames.py`: its requests; `asking.py`: one request at a time
- `grpc_load.py`: calls of a gRPC endpoint; `grpc_receive_load.py`: receives
- `consuming.py`, `consumer.py`: a push consumer in its own process
- `spark.py`, `spark_run.py`, `spark_baseline.py`: reading with Spark; `spark_sink.py`: writing, and sweeps
- `oracle.py`: the same measurements of a real RocketMQ
- `curves/`: the cost of more topics, connections, messages; `recorded/`: the source of docs/performance.md
- `request_paths.py`: how many functions and files a request passes (`make roads`)
- `dashboard.py`: pages of the dashboard, and what open browsers cost
- `replication.py`: what slaves cost, and how long a failover takes; `copy_lag.py`: how late a slave is
- `soak.py`: checks that nothing grows in a long run
"""
