"""Rows that become messages, in a real Spark."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from staticfire import Cluster
from staticfire.pipeline.rows import ROW_ID
from staticfire.pipeline.sink import write_rows
from staticfire.pipeline.sink_options import SinkOptions
from tests.pipeline.stand import bodies, messages, numbered, rows, run_to_its_end, send

pytestmark = [pytest.mark.spark, pytest.mark.row("E4")]


def write(frame: DataFrame, cluster: Cluster, **options: object) -> None:
    texts = {name: str(value) for name, value in options.items()}
    frame.write.format("staticfire").option("nameServer", cluster.namesrv).options(**texts).mode("append").save()


def test_rows_arrive_with_all_that_they_have(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("out", queues=2)
    cluster.create_topic("other", queues=1)
    frame = spark.createDataFrame(
        [
            ("one", None, "paid", "k1 k2", {"who": "me"}, 3, 7),
            ("two", "other", None, None, None, None, None),
            ("3", None, None, None, {}, 0, None),
        ],
        "value string, topic string, tags string, keys string, properties map<string,string>, queue int, flag int",
    )
    write(frame, cluster, topic="out")
    first, third = sorted(messages(cluster, "out"), key=lambda one: -len(one.body))
    assert (first.body, first.tags, first.keys, first.flag) == (b"one", "paid", ["k1", "k2"], 7)
    assert (first.properties["who"], first.broker_name, first.queue_id) == ("me", "broker-b", 1)
    assert (third.body, third.broker_name, third.queue_id) == (b"3", "broker-a", 0)
    (second,) = messages(cluster, "other")
    assert second.body == b"two"
    ids = [one.properties[ROW_ID] for one in (first, second, third)]
    assert len(set(ids)) == 3
    assert len({one.split("-")[0] for one in ids}) == 1


def test_what_was_read_can_be_written(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=3)
    cluster.create_topic("copy", queues=3)
    send(cluster.namesrv, numbered("orders", 3_000))
    read = spark.read.format("staticfire").option("nameServer", cluster.namesrv).option("subscribe", "orders")
    write(read.option("includeProperties", "true").load().drop("topic"), cluster, topic="copy", rowsPerSend=256)
    copied = rows(spark, cluster.namesrv, "copy")
    assert bodies(copied) == list(range(3_000))
    assert Counter(row.tags for row in copied) == {"paid": 1_000, "open": 1_000, None: 1_000}


def test_one_key_keeps_its_order(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("out", queues=2)
    frame = spark.range(600).selectExpr("cast(id as string) value", "concat('k', id % 5) orderingKey").coalesce(1)
    write(frame, cluster, topic="out", rowsPerSend=50)
    places: dict[int, set[tuple[str, int]]] = {}
    last: dict[int, int] = {}
    for one in sorted(messages(cluster, "out"), key=lambda one: (one.broker_name, one.queue_id, one.queue_offset)):
        number = int(one.body)
        places.setdefault(number % 5, set()).add((one.broker_name, one.queue_id))
        assert last.get(number % 5, -1) < number
        last[number % 5] = number
    assert [len(of_key) for of_key in places.values()] == [1] * 5


def test_rows_with_a_time_of_their_own_come_then(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("out", queues=1)
    due = datetime.now(UTC) + timedelta(hours=1)
    frame = spark.createDataFrame(
        [("timer", due, None), ("level", None, 17), ("now", None, None)],
        "value string, deliverTimestamp timestamp, delayLevel int",
    )
    write(frame, cluster, topic="out")
    assert [one.body for one in messages(cluster, "out")] == [b"now"]
    cluster.clock.advance(minutes=61)
    assert {one.body for one in messages(cluster, "out")} == {b"now", b"timer", b"level"}


def test_a_stream_writes_each_row_once_over_restarts(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    cluster.create_topic("out", queues=2)
    for start in (0, 500):
        send(cluster.namesrv, numbered("orders", 500, start))
        reading = spark.readStream.format("staticfire").option("nameServer", cluster.namesrv)
        stream = reading.option("subscribe", "orders").option("startingOffsets", "earliest").load().drop("topic")
        writing = stream.writeStream.format("staticfire").option("nameServer", cluster.namesrv).option("topic", "out")
        run_to_its_end(writing.option("checkpointLocation", str(tmp_path)))
    written = messages(cluster, "out")
    assert sorted(int(one.body) for one in written) == list(range(1_000))
    ids = [one.properties[ROW_ID] for one in written]
    assert len(set(ids)) == 1_000
    assert len({one.rsplit("-", 3)[0] for one in ids}) == 1  # The query's id, the same after a restart.


def test_a_row_that_cant_be_a_message_fails_the_write_or_is_left_out(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("out", queues=1)
    frame = spark.createDataFrame([("good", "k"), (None, "k"), ("bad", "a b")], "value string, tags string").coalesce(1)
    with pytest.raises(PySparkException, match=r"rows not sent, for example row [12]: "):
        write(frame, cluster, topic="out")
    write(frame.filter("value is null or value = 'good'"), cluster, topic="out", failOnError=False)
    assert b"good" in {one.body for one in messages(cluster, "out")}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("value string", {}, "no topic"),
        ("value string", {"topic": "a b"}, "topic=a b"),
        ("value string", {"topic": "out", "topik": "x"}, "did you mean topic"),
        ("value string", {"topic": "out", "rowsPerSend": "0"}, "rowsPerSend=0"),
        ("value string, body binary", {"topic": "out"}, "one column value"),
        ("text string", {"topic": "out"}, "one column value"),
        ("value double", {"topic": "out"}, "column value is a double; the sink needs binary or string"),
        ("value string, tag string", {"topic": "out"}, "did you mean tags"),
        ("value string, properties map<string,int>", {"topic": "out"}, "column properties is a map<string,int>"),
        ("value string", {"topic": "out", "nameServer": "127.0.0.1:1", "sendTimeoutMs": "500"}, "127.0.0.1:1"),
    ],
)
def test_what_cant_be_is_one_line(
    spark: SparkSession, cluster: Cluster, columns: str, options: dict[str, str], words: str
) -> None:
    frame = spark.createDataFrame([], columns)
    if "nameServer" in options:
        frame = spark.createDataFrame([("x",)], columns)
    with pytest.raises(PySparkException, match=words):
        write(frame, cluster, **options)


def test_a_task_that_is_tried_again_makes_copies_that_can_be_recognized(cluster: Cluster) -> None:
    cluster.create_topic("out", queues=2)
    options = SinkOptions(cluster.namesrv, "out", rows_per_send=10)
    batches = [pa.record_batch({"value": [b"%d" % number for number in range(at, at + 30)]}) for at in (0, 30, 60)]

    def killed() -> Iterator[pa.RecordBatch]:
        yield from batches[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(options, killed(), "run")
    assert write_rows(options, iter(batches), "run").sent == 90
    found = messages(cluster, "out")
    row_of = {one.properties[ROW_ID]: one.body for one in found}
    assert sorted(map(int, row_of.values())) == list(range(90))
    assert len(found) > 90  # Copies, each with the id of its row.
    assert all(row_of[one.properties[ROW_ID]] == one.body for one in found)


def test_overwriting_is_refused(spark: SparkSession, cluster: Cluster) -> None:
    frame = spark.createDataFrame([("x",)], "value string")
    with pytest.raises(PySparkException, match="never overwritten"):
        frame.write.format("staticfire").option("topic", "out").mode("overwrite").save()


def test_a_broker_that_is_away_for_a_while_loses_nothing(spark: SparkSession) -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("out", queues=2)
        cluster.broker("broker-a").kill()
        frame = spark.range(200).selectExpr("cast(id as string) value")
        with pytest.raises(PySparkException, match="rows not sent"):
            write(frame, cluster, topic="out", sendTimeoutMs=800)
        cluster.broker("broker-a").restart()
        write(frame, cluster, topic="out")
        assert {int(one.body) for one in messages(cluster, "out")} == set(range(200))
