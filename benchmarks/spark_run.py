"""The Spark figures, in a process of their own: prints them as one line of JSON. Needs the extra [spark] and Java.

    python -m benchmarks.spark_run --messages 1000000 --repeats 5

Every read goes into Spark's `noop` sink; reads of the cluster and of the Parquet files take turns, and medians count.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_baseline import EmptySource
from benchmarks.spark_sink import TOPIC as OUT, sink_figures, sweep_figures
from staticfire import Cluster
from staticfire.client import Message, Producer
from staticfire.pipeline import session

TOPIC = "bench"
# As many as cores, so that two tasks read each of the two sources.
QUEUES = 2
BODY_BYTES = 100
SENT_AT_ONCE = 5_000
MICRO_BATCHES = 30
MICRO_BATCH_ROWS = 10
WARM_BATCHES = 5


def main() -> None:
    """Fill a cluster, measure, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sweep-runs", type=int, default=8)
    parser.add_argument("--protocol", choices=("staticfire", "rocketmq"), default="staticfire")
    arguments = parser.parse_args()
    with (
        Cluster(isolation="process") as cluster,
        tempfile.TemporaryDirectory() as folder,
        session("bench", f"local[{QUEUES}]") as spark,
    ):
        cluster.create_topic(TOPIC, QUEUES)
        cluster.create_topic(OUT, QUEUES)
        asyncio.run(_fill(cluster.namesrv, arguments.messages))
        options = {"nameServer": cluster.namesrv, "subscribe": TOPIC, "protocol": arguments.protocol}
        values = _batch(spark, options, Path(folder), arguments.messages, arguments.repeats)
        print(values, file=sys.stderr)  # The results so far, in case the rest fails.
        values |= _micro_batches(spark, options, Path(folder))
        values |= sink_figures(spark, cluster.namesrv, arguments.messages, arguments.repeats, Path(folder))
        print(values, file=sys.stderr)
        values |= sweep_figures(spark, arguments.sweep_runs)
    print(json.dumps(values))


async def _fill(namesrv: str, count: int) -> None:
    body = bytes(range(BODY_BYTES))
    async with Producer("bench", namesrv) as producer:
        for start in range(0, count, SENT_AT_ONCE):
            many = range(start, min(start + SENT_AT_ONCE, count))
            await producer.send_many([Message(TOPIC, body, tags="paid", keys=[str(number)]) for number in many])


def _batch(spark: SparkSession, options: dict[str, str], folder: Path, messages: int, repeats: int) -> dict[str, float]:
    """Measure reading the topic, and reading the same rows from Parquet."""
    files = str(folder / "rows")
    topic = spark.read.format("staticfire").options(**options)
    plain = {"compression": "none", "parquet.enable.dictionary": "false"}
    topic.load().write.options(**plain).parquet(files)
    parquet = spark.read.parquet(files)
    seconds: dict[str, list[float]] = {"topic": [], "parquet": []}
    for _ in range(repeats + 1):
        seconds["topic"].append(_seconds(lambda: _to_nowhere(topic.load())))
        seconds["parquet"].append(_seconds(lambda: _to_nowhere(parquet)))
    topic_s, parquet_s = (median(seconds[name][1:]) for name in ("topic", "parquet"))
    return {
        "spark_read_per_s": messages / topic_s,
        "spark_parquet_per_s": messages / parquet_s,
        "spark_read_x_parquet": parquet_s / topic_s,
    }


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(do: Callable[[], None]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def _micro_batches(spark: SparkSession, options: dict[str, str], folder: Path) -> dict[str, float]:
    """Measure micro-batches of the topic, and of a source that sends no requests."""
    spark.dataSource.register(EmptySource)
    topic = options | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MICRO_BATCH_ROWS)}
    end = MICRO_BATCHES + WARM_BATCHES
    nothing = {"batches": str(end), "partitions": str(QUEUES)}
    empty_ms = _per_micro_batch(spark, EmptySource.name(), nothing, folder / "empty", end)
    topic_ms = _per_micro_batch(spark, "staticfire", topic, folder / "topic", end)
    return {
        "spark_micro_batch_ms": topic_ms,
        "spark_empty_batch_ms": empty_ms,
        "spark_micro_batch_more_ms": topic_ms - empty_ms,
    }


def _per_micro_batch(spark: SparkSession, source: str, options: dict[str, str], checkpoint: Path, count: int) -> float:
    """Return the median time of a micro-batch."""
    reading = spark.readStream.format(source).options(**options).load()
    query = reading.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        while (last := query.lastProgress) is None or last["batchId"] < count - 1:
            if query.exception() is not None:
                raise SystemExit(f"bench: {source}: {query.exception()}")
            time.sleep(0.05)
        taken = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
    finally:
        query.stop()
    return float(median(taken[WARM_BATCHES:count]))


if __name__ == "__main__":
    main()
