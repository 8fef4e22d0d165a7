"""Topics to Parquet in a real Spark: everything once, also when a driver died at the worst moments."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.cli import main
from staticfire.client import Message, SendResult
from staticfire.pipeline.jobs.card import CARD_NAME
from staticfire.pipeline.jobs.ingest import Batch, ingest, read_ingested
from staticfire.pipeline.jobs.lock import OutputLock
from staticfire.pipeline.jobs.settings import IngestSettings
from staticfire.protocol.errors import ClientError, NetworkError, UsageError
from tests.cli.commands import ROOT, environment, one_line
from tests.pipeline.stand import numbered, send

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(300)]

Place = tuple[str, str, int, int]


def settings(cluster: Cluster, folder: Path, *topics: str) -> IngestSettings:
    return IngestSettings(topics or ("orders",), str(folder / "table"), cluster.namesrv, lock_wait_ms=2_000)


def sent_places(results: list[SendResult]) -> Counter[Place]:
    return Counter(
        (result.queue.topic, result.queue.broker_name, result.queue.queue_id, result.queue_offset) for result in results
    )


def logged_places(spark: SparkSession, folder: Path) -> Counter[Place]:
    """Return what is in the table by the sink's log."""
    rows = read_ingested(spark, str(folder / "table")).select("topic", "brokerName", "queueId", "queueOffset").collect()
    return Counter((row[0], row[1], row[2], row[3]) for row in rows)


def plain_places(folder: Path) -> Counter[Place]:
    """Return what is in the table for a reader that takes the files as they are."""
    table = pyarrow.dataset.dataset(str(folder / "table"), format="parquet", partitioning="hive").to_table()
    names = ("topic", "brokerName", "queueId", "queueOffset")
    return Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def forget(checkpoint: Path, table: Path, batch: int, *, in_the_log: bool) -> None:
    """Make it as it was when the driver died: before the checkpoint's commit, or even before the sink's."""
    for folder in [checkpoint / "commits", *([table / "_spark_metadata"] if in_the_log else [])]:
        for name in (str(batch), f".{batch}.crc"):
            (folder / name).unlink(missing_ok=name.startswith("."))


def test_every_message_is_there_once_and_a_second_run_brings_what_is_new(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 100)))
    wanted, batches = settings(cluster, tmp_path), list[Batch]()
    report = ingest(spark, replace(wanted, rows_per_batch_max=40), batches.append)
    assert (report.rows, report.batches, report.swept_files) == (100, 3, 0)
    assert [batch.rows for batch in batches] == [40, 40, 20]
    assert ingest(spark, wanted).rows == 0
    sent += sent_places(send(cluster.namesrv, numbered("orders", 30, start=100)))
    assert ingest(spark, wanted).rows == 30
    assert logged_places(spark, tmp_path) == plain_places(tmp_path) == sent
    assert {row.topic for row in read_ingested(spark, wanted.to).collect()} == {"orders"}


def test_a_continuous_one_continues_until_it_is_stopped(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 10)))
    seen = 0

    def reported(batch: Batch) -> None:
        nonlocal seen, sent
        if seen == 0:
            sent += sent_places(send(cluster.namesrv, numbered("orders", 7, start=10)))
        seen += batch.rows
        if seen == 17:
            for query in spark.streams.active:
                query.stop()

    assert ingest(spark, replace(settings(cluster, tmp_path), continuous=True, trigger_ms=100), reported).rows == 17
    assert logged_places(spark, tmp_path) == plain_places(tmp_path) == sent


def test_a_driver_that_died_between_the_commits_of_table_and_checkpoint_writes_nothing_twice(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 60)))
    wanted = replace(settings(cluster, tmp_path), checkpoint=str(tmp_path / "progress"))
    ingest(spark, wanted)
    forget(tmp_path / "progress", tmp_path / "table", 0, in_the_log=False)
    sent += sent_places(send(cluster.namesrv, numbered("orders", 5, start=60)))
    assert ingest(spark, wanted).rows == 5
    assert logged_places(spark, tmp_path) == plain_places(tmp_path) == sent


def test_files_of_a_batch_that_died_are_swept_for_readers_that_know_no_log(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 60)))
    wanted = settings(cluster, tmp_path)
    ingest(spark, replace(wanted, rows_per_batch_max=30))
    forget(tmp_path / "table/_checkpoint", tmp_path / "table", 1, in_the_log=True)
    assert plain_places(tmp_path) == sent
    report = ingest(spark, wanted)
    assert report.rows == 30
    assert report.swept_files > 0
    assert logged_places(spark, tmp_path) == plain_places(tmp_path) == sent


def test_dead_letters_come_along_from_the_first_one_on(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 3))
    wanted = replace(settings(cluster, tmp_path), dead_letters_of=("billing",))
    assert ingest(spark, wanted).topics == ("orders",)
    cluster.create_topic("%DLQ%billing", queues=1)
    send(cluster.namesrv, [Message("%DLQ%billing", b"dead")])
    report = ingest(spark, wanted)
    assert (report.topics, report.rows) == (("orders", "%DLQ%billing"), 1)
    assert Counter(row.topic for row in read_ingested(spark, wanted.to).collect()) == {"orders": 3, "%DLQ%billing": 1}


def test_a_dead_letter_topic_that_appears_meanwhile_is_read_by_a_continuous_one(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 3)))
    seen = 0

    def reported(batch: Batch) -> None:
        nonlocal seen, sent
        if seen == 0:
            cluster.create_topic("%DLQ%billing", queues=1)
            sent += sent_places(send(cluster.namesrv, [Message("%DLQ%billing", b"dead")]))
        seen += batch.rows
        if seen == 4:
            for query in spark.streams.active:
                query.stop()

    wanted = replace(settings(cluster, tmp_path), dead_letters_of=("billing",), continuous=True, trigger_ms=100)
    report = ingest(spark, wanted, reported)
    assert (report.topics, report.rows) == (("orders", "%DLQ%billing"), 4)
    assert logged_places(spark, tmp_path) == plain_places(tmp_path) == sent
    assert ingest(spark, replace(wanted, continuous=False)).rows == 0


def test_a_topic_that_is_a_number_stays_a_text(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("007", queues=1)
    send(cluster.namesrv, numbered("007", 1))
    wanted = settings(cluster, tmp_path, "007")
    ingest(spark, wanted)
    assert [row.topic for row in read_ingested(spark, wanted.to).collect()] == ["007"]


def test_one_ingest_at_a_time_writes_to_a_folder(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 1))
    wanted = settings(cluster, tmp_path)
    ingest(spark, wanted)
    with (
        OutputLock(spark, wanted.to, wait_ms=2_000),
        pytest.raises(ClientError, match="another ingest is writing to"),
    ):
        ingest(spark, wanted)
    assert ingest(spark, wanted).rows == 0


def test_bad_input_is_one_clear_line_and_leaves_nothing_behind(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    cluster.create_topic("bills", queues=1)
    send(cluster.namesrv, numbered("orders", 1))
    wanted, fresh = settings(cluster, tmp_path), str(tmp_path / "fresh")
    ingest(spark, wanted)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/one.jpg").touch()
    cases: list[tuple[IngestSettings, type[Exception], str]] = [
        (replace(wanted, name_server="127.0.0.1:1", to=fresh), NetworkError, "no nameserver responds"),
        (replace(wanted, topics=("nope",), to=fresh), ClientError, "there is no topic nope at"),
        (replace(wanted, to=str(tmp_path / "photos")), UsageError, "contains other files (one.jpg)"),
        (
            replace(wanted, to=fresh, checkpoint=f"{wanted.to}/_checkpoint"),
            UsageError,
            "belongs to an ingest of orders",
        ),
        (replace(wanted, topics=("bills",)), UsageError, "are of orders, not of bills"),
        (replace(wanted, checkpoint=str(tmp_path / "other")), UsageError, "was written with another checkpoint"),
    ]
    for given, kind, words in cases:
        with pytest.raises(kind) as refused:
            ingest(spark, given)
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
    assert not Path(fresh).exists()
    assert not (tmp_path / "other").exists()


def test_a_table_that_lost_its_files_is_not_written_on(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 1))
    wanted = replace(settings(cluster, tmp_path), checkpoint=str(tmp_path / "progress"))
    ingest(spark, wanted)
    shutil.rmtree(tmp_path / "table/_spark_metadata")
    with pytest.raises(UsageError, match="has lost files that were written with checkpoint"):
        ingest(spark, wanted)
    (tmp_path / "table" / CARD_NAME).unlink()
    with pytest.raises(UsageError, match="another folder"):
        ingest(spark, wanted)


@pytest.mark.parametrize("job", ["ingest --topic orders -n", "consumption --from", "sweep --seeds 1"])
def test_a_job_says_that_there_is_no_java(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    cluster.create_topic("orders")
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    place = [cluster.namesrv] if "sweep" not in job else []
    assert main(["pipeline", *job.split(), *place, "--to", str(tmp_path / "out")]) == 2
    assert "Spark needs Java 17 or later; on Debian: apt-get install" in one_line(capsys.readouterr().err)


def test_a_client_of_spark_connect_is_refused_with_the_reason(tmp_path: Path) -> None:
    class Remote:
        """As Spark Connect's session: it has no such attribute."""

    with pytest.raises(UsageError, match=r"a client of Spark Connect doesn't have; run ingest .* with spark-submit"):
        read_ingested(Remote(), str(tmp_path))  # type: ignore[arg-type]


def test_spark_submit_runs_the_command_on_its_own_session(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    sent = sent_places(send(cluster.namesrv, numbered("orders", 20)))
    flags = ["pipeline", "ingest", "-n", cluster.namesrv, "--topic", "orders", "--to", str(tmp_path / "table")]
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"]
    done = subprocess.run(
        [*submit, str(ROOT / "staticfire/__main__.py"), *flags],
        cwd=tmp_path,
        env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ingest: 20 messages of orders were added to " in done.stdout
    assert plain_places(tmp_path) == sent
