"""The command `staticfire pipeline ingest`, killed in the middle, twice: with its JVM left over, and all of it."""

import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import Message
from staticfire.pipeline.jobs.ingest import read_ingested
from tests.cli.commands import ROOT, command, environment
from tests.pipeline.stand import send

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(900)]

MESSAGES, BATCH_ROWS = 1_500, 100
TIMEOUT_S = 600
Row = tuple[str, int, int, str, bytes]


class Driver:
    """One run of the command in a session of its own, with its JVM and its workers; all of it is gone afterwards."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        arguments = ["pipeline", "ingest", "--namesrv", cluster.namesrv, "--topic", "orders"]
        arguments += ["--to", str(folder / "table"), "--batch-rows", str(BATCH_ROWS), "--master", "local[2]"]
        with (folder / "errors").open("a") as errors:
            self.process = subprocess.Popen(
                command(*arguments),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.kill_all()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait_for_batches(self, count: int) -> None:
        """Read what it says until it has committed so many batches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            count -= line.startswith("ingest: batch ")
            if count == 0:
                return
        raise AssertionError("it ended before")

    def kill(self) -> None:
        """Kill the Python driver alone."""
        self.process.kill()
        self.process.wait()

    def kill_all(self) -> None:
        """Kill the driver and its JVM at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def rows_of(table: "pyarrow.Table") -> Counter[Row]:
    names = ("brokerName", "queueId", "queueOffset", "keys", "body")
    return Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def test_a_driver_killed_twice_in_the_middle_loses_nothing_and_writes_nothing_twice(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    messages = [Message("orders", b"%d" % number, keys=f"order-{number}") for number in range(MESSAGES)]
    results = send(cluster.namesrv, messages)
    sent = Counter(
        (result.queue.broker_name, result.queue.queue_id, result.queue_offset, f"order-{number}", b"%d" % number)
        for number, result in enumerate(results)
    )
    place = str(tmp_path / "table")

    with Driver(cluster, tmp_path) as first:
        first.wait_for_batches(3)
        first.kill()
        # Its JVM is left over, and may write until it has noticed. The next driver waits for its lock.
        with Driver(cluster, tmp_path) as second:
            second.wait_for_batches(3)
            second.kill_all()
    part = read_ingested(spark, place).count()
    assert 5 * BATCH_ROWS <= part < MESSAGES  # It was in the middle.

    with Driver(cluster, tmp_path) as third:
        said, _ = third.process.communicate(timeout=TIMEOUT_S)
    assert third.process.returncode == 0, (tmp_path / "errors").read_text()
    assert said.splitlines()[-1].startswith(f"ingest: {MESSAGES - part} messages of orders were added to ")
    assert rows_of(pyarrow.Table.from_pandas(read_ingested(spark, place).toPandas())) == sent
    assert rows_of(pyarrow.dataset.dataset(place, format="parquet", partitioning="hive").to_table()) == sent
