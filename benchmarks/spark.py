"""Reads, writes and sweeps with Spark, if the extra [spark] is installed: rows per second, time of a micro-batch.

Spark may use both cores, together with the cluster, as on a user's machine.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from shutil import which

from benchmarks.figures import Stand, Values
from benchmarks.machine import ALL_CORES
from benchmarks.servers import ROOT, environment

MESSAGES, QUICK_MESSAGES = 1_000_000, 200_000
REPEATS, QUICK_REPEATS = 5, 3
SWEEP_RUNS, QUICK_SWEEP_RUNS = 20, 4


class SparkRead:
    """Reads, writes, micro-batches of both, and runs of a sweep."""

    name = "spark"
    keys = (
        "spark_read_per_s", "spark_read_x_parquet", "spark_micro_batch_more_ms", "spark_write_per_s",
        "spark_write_batch_more_ms", "spark_sweep_per_min",
    )  # fmt: skip

    def measure(self, stand: Stand) -> Values:
        sizes = (QUICK_MESSAGES, QUICK_REPEATS, QUICK_SWEEP_RUNS) if stand.is_quick else (MESSAGES, REPEATS, SWEEP_RUNS)
        messages, repeats, runs = map(str, sizes)
        command = [sys.executable, "-m", "benchmarks.spark_run", "--messages", messages, "--repeats", repeats]
        command += ["--sweep-runs", runs]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, ALL_CORES),
        )
        if done.returncode:
            raise SystemExit(f"bench: spark: exit code {done.returncode}: {done.stderr[-2_000:]}")
        values: Values = json.loads(done.stdout.splitlines()[-1])
        return values


def spark_missing() -> str:
    """Return the reason why Spark can't be measured here, or "" if it can."""
    if find_spec("pyspark") is None:
        return "spark: not measured, the extra isn't installed (`make .venv/.spark`)"
    return "" if which("java") or os.environ.get("JAVA_HOME") else "spark: not measured, there is no java"
