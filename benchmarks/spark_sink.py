"""Writes with Spark: rows to a topic, in bulk and in micro-batches, and runs of a sweep. Needs the extra [spark].

A micro-batch has ten rows, which Spark generates itself, and two tasks. It is compared with the same query into a
Python sink that drops the rows: the difference is the cost of sending.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from staticfire.pipeline.sweep.job import run_sweep
from staticfire.pipeline.sweep.plan import SweepPlan

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "bench_out"
TASKS = 2
BODY_BYTES = 100
MICRO_BATCH_ROWS = 10
MICRO_BATCHES, WARM_BATCHES = 30, 5
LOOK_S = 0.05
WORKLOAD = str(Path(__file__).parent.parent / "examples/simulations/shop.py")
SWEEP_HOURS = 1 / 6


class EmptySink(DataSource):
    """A sink that drops all rows."""

    @classmethod
    def name(cls) -> str:
        return "staticfire_bench_nowhere"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "EmptyWriter":  # noqa: N802 (Spark's name)
        return EmptyWriter()


class EmptyWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch after another."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def sink_figures(spark: SparkSession, name_server: str, rows: int, repeats: int, folder: Path) -> dict[str, float]:
    """Measure writes to the topic `bench_out`, which must exist."""
    to = {"nameServer": name_server, "topic": TOPIC}
    frame = spark.range(0, rows, 1, TASKS).selectExpr(f"repeat('x', {BODY_BYTES}) AS value")
    seconds = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        frame.write.format("staticfire").options(**to).mode("append").save()
        seconds.append(time.perf_counter() - started)
    spark.dataSource.register(EmptySink)
    # The first query warms up the JVM.
    _per_micro_batch(spark, EmptySink.name(), {}, folder / "warm")
    nothing_ms = _per_micro_batch(spark, EmptySink.name(), {}, folder / "nowhere")
    topic_ms = _per_micro_batch(spark, "staticfire", to, folder / "out")
    return {
        "spark_write_per_s": rows / median(seconds[1:]),
        "spark_write_batch_ms": topic_ms,
        "spark_write_nothing_ms": nothing_ms,
        "spark_write_batch_more_ms": topic_ms - nothing_ms,
    }


def _per_micro_batch(spark: SparkSession, sink: str, options: dict[str, str], checkpoint: Path) -> float:
    """Return the median time of a micro-batch."""
    source = {"rowsPerBatch": str(MICRO_BATCH_ROWS), "numPartitions": str(TASKS)}
    reading = spark.readStream.format("rate-micro-batch").options(**source).load()
    rows = reading.selectExpr("cast(value AS string) AS value")
    writing = rows.writeStream.format(sink).options(**options).option("checkpointLocation", str(checkpoint))
    query, count = writing.start(), MICRO_BATCHES + WARM_BATCHES
    try:
        while (last := query.lastProgress) is None or last["batchId"] < count - 1:
            if query.exception() is not None:
                raise SystemExit(f"bench: {sink}: {query.exception()}")
            time.sleep(LOOK_S)
        taken = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
    finally:
        query.stop()
    return float(median(taken[WARM_BATCHES:count]))


def sweep_figures(spark: SparkSession, runs: int) -> dict[str, float]:
    """Measure the rate of runs of ten simulated minutes, and the CPU time of a run."""
    with tempfile.TemporaryDirectory() as folder:
        plan = SweepPlan(WORKLOAD, range(1, runs + 1), SWEEP_HOURS)
        started = time.perf_counter()
        figures = run_sweep(spark, plan, folder)
        seconds = time.perf_counter() - started
    if figures.errors:
        raise SystemExit(f"bench: {figures.errors} of {runs} runs of a sweep are errors")
    return {"spark_sweep_per_min": 60 * runs / seconds, "spark_sweep_run_cpu_s": figures.cpu_s / runs}
