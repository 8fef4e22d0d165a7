"""What other programs have in the folder of an ingest is left alone, and a second ingest doesn't interfere."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.pipeline.consumption.following import follow
from staticfire.pipeline.consumption.job import look, page_place, with_results
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.pipeline.consumption.sources import LEDGER_COLUMNS
from staticfire.pipeline.jobs import lock
from staticfire.pipeline.jobs.card import CARD_NAME
from staticfire.pipeline.jobs.failures import failures_of_spark, one_line
from staticfire.pipeline.jobs.ingest import ingest, read_ingested
from staticfire.pipeline.jobs.lock import CONSUMPTION_LOCK_NAME, LOCK_NAME, SWEEP_LOCK_NAME, OutputLock, folder_lock
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.runtime.log import logged_to
from tests.pipeline.stand import numbered, send

pytestmark = [
    pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(300), pytest.mark.usefixtures("for_few_rows"),
]  # fmt: skip

OF_SPARK = "part-00000-ec2d6f47-6a9a-4d46-8cb7-b4aeb1b31f84.c000.snappy.parquet"
LOCKED_BY_OTHERS = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(3)
"""


@pytest.fixture
def wanted(cluster: Cluster, tmp_path: Path) -> IngestSettings:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 5))
    return IngestSettings(("orders",), str(tmp_path / "table"), cluster.namesrv, lock_wait_ms=2_000)


def test_only_files_that_the_sink_has_written_are_swept(spark: SparkSession, wanted: IngestSettings) -> None:
    ingest(spark, wanted)
    table = Path(wanted.to)
    (day,) = (table / "topic=orders").iterdir()
    foreign = [
        table / "tables/life" / OF_SPARK, table / "mine.parquet", table / OF_SPARK,
        table / "topic=orders/mine.parquet", table / "topic=orders" / OF_SPARK, day / "mine.parquet",
        day / "deeper" / OF_SPARK, table / "topic=bills/storeDate=2026-01-01" / OF_SPARK,
    ]  # fmt: skip
    orphan = day / OF_SPARK
    for path in (*foreign, orphan):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (table / "topic=bills" / CARD_NAME).write_text((table / CARD_NAME).read_text())
    assert ingest(spark, wanted).swept_files == 1
    assert [path for path in foreign if not path.exists()] == []
    assert not orphan.exists()


def test_a_table_inside_of_another_one_is_refused(spark: SparkSession, wanted: IngestSettings, tmp_path: Path) -> None:
    ingest(spark, wanted)
    for inside in ("bills", "deeper/bills"):
        with pytest.raises(UsageError, match=rf"table/{inside} is inside of {tmp_path}/table, which another ingest"):
            ingest(spark, replace(wanted, to=f"{wanted.to}/{inside}"))
        assert not Path(f"{wanted.to}/{inside}").exists()


def test_results_about_a_table_are_no_part_of_it(spark: SparkSession, wanted: IngestSettings, tmp_path: Path) -> None:
    ingest(spark, wanted)
    settings = ConsumptionSettings("", wanted.to)
    ledger = spark.createDataFrame([], LEDGER_COLUMNS)
    look(spark, settings, ledger)
    written = {path.name for path in Path(wanted.to).iterdir() if not path.name.startswith(".")}
    assert written == {
        "_spark_metadata", "_checkpoint", "_consumption", CARD_NAME, LOCK_NAME, "topic=orders",
    }  # fmt: skip
    assert page_place(with_results(spark, settings)) == Path(wanted.to) / "_consumption/consumption.html"
    elsewhere = replace(settings, results=str(tmp_path / "results"))
    look(spark, elsewhere, ledger)
    assert ingest(spark, wanted).swept_files == 0
    for tables in (Path(wanted.to) / "_consumption/tables", tmp_path / "results/tables"):
        assert list((tables / "life").glob("*.parquet")) != []


def test_messages_of_another_cluster_are_not_added_to_a_table(
    spark: SparkSession, cluster: Cluster, wanted: IngestSettings
) -> None:
    ingest(spark, wanted)
    cluster.reset()
    cluster.clock.advance(minutes=1)
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 40))
    with pytest.raises(failures_of_spark()) as refused:
        ingest(spark, wanted)
    assert "this is another cluster, or the topic was deleted and created again" in one_line(refused.value)
    assert read_ingested(spark, wanted.to).count() == 5


def test_an_ingest_that_is_refused_does_not_release_the_lock_of_the_one_that_runs(
    spark: SparkSession, wanted: IngestSettings, tmp_path: Path
) -> None:
    """The second one calls the same folder by another name."""
    ingest(spark, wanted)
    (tmp_path / "link").symlink_to(wanted.to)
    locked = [sys.executable, "-c", LOCKED_BY_OTHERS, f"{wanted.to}/{LOCK_NAME}"]
    with OutputLock(spark, wanted.to, wait_ms=2_000):
        for to in (wanted.to, str(tmp_path / "link")):
            with (
                pytest.raises(ClientError, match=r"another ingest is writing to .*, in this session"),
                OutputLock(spark, to, wait_ms=2_000),
            ):
                pass
            assert subprocess.run(locked, check=False, timeout=60).returncode == 3
    assert subprocess.run(locked, check=False, timeout=60).returncode == 0
    assert ingest(spark, wanted).rows == 0


def test_without_file_locks_an_ingest_names_the_reason_and_other_jobs_continue(
    spark: SparkSession, wanted: IngestSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(jvm: Any, path: str) -> Any:
        channel = jvm.java.io.RandomAccessFile(path, "rw").getChannel()
        channel.close()  # Now locking it is an IOException.
        return channel

    monkeypatch.setattr(lock, "open_channel", without_locks)
    with pytest.raises(ClientError, match=r"table can't be locked \(java.*Exception\): .* a second ingest"):
        ingest(spark, wanted)
    warned: list[tuple[str, object]] = []
    with (
        logged_to(lambda _level, event, fields: warned.append((event, fields["folder"]))),
        folder_lock(spark, SWEEP_LOCK_NAME, str(tmp_path / "sweep")),
    ):
        assert warned == [("folder_not_locked", str(tmp_path / "sweep"))]


def test_a_consumption_job_waits_for_another_one_in_the_same_folder(
    spark: SparkSession, cluster: Cluster, wanted: IngestSettings, tmp_path: Path
) -> None:
    """Two jobs that write the same tables at once would leave rows of both in them."""
    ingest(spark, wanted)
    ledger, to = spark.createDataFrame([], LEDGER_COLUMNS), str(tmp_path / "results")
    of_table = ConsumptionSettings("", wanted.to, results=to)
    of_cluster = ConsumptionSettings(cluster.namesrv, to)
    with folder_lock(spark, CONSUMPTION_LOCK_NAME, to):
        for job in (of_table, of_cluster):
            with pytest.raises(ClientError, match=r"another consumption job is writing to .*results, in this session"):
                look(spark, job, ledger)
        with pytest.raises(ClientError, match="another consumption job"):
            follow(spark, of_cluster, lambda _: None)
        assert not (tmp_path / "results/tables").exists()
    look(spark, of_table, ledger)
    assert (tmp_path / "results/tables/life").exists()
