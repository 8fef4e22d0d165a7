"""Streaming reads, in a real Spark: batches, limits, restarts, queues that come and go."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import MessageQueue
from tests.pipeline.stand import InMemory, Stream, bodies, numbered, offsets_of, send, send_to, set_queues

pytestmark = pytest.mark.spark

FIRST = MessageQueue("orders", "broker-a", 0)


def last_offsets(checkpoint: Path) -> Any:
    """Return the source's offsets of the newest batch in a checkpoint, without its known messages."""
    newest = max(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )
    return offsets_of(json.loads(newest.read_text().splitlines()[-1]))


def test_limit_makes_batches_and_a_restart_reads_nothing_twice(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, numbered("orders", 250))
    stream = Stream(spark, cluster.namesrv, "orders", tmp_path, maxOffsetsPerTrigger=100)
    batches = stream.run()
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert bodies(row for batch in batches for row in batch) == list(range(250))
    assert stream.run() == []
    send(cluster.namesrv, numbered("orders", 30, start=250))
    assert [bodies(batch) for batch in stream.run()] == [list(range(250, 280))]
    offsets = last_offsets(stream.checkpoint)
    assert {name: sorted(queues) for name, queues in offsets["orders"].items()} == {
        "broker-a": ["0", "1"],
        "broker-b": ["0", "1"],
    }
    assert sum(sum(queues.values()) for queues in offsets["orders"].values()) == 280


def test_new_queue_and_new_broker_entry_are_read_from_their_begin(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"1"])
    stream = Stream(spark, cluster.namesrv, "orders", tmp_path)
    assert [bodies(batch) for batch in stream.run()] == [[1]]
    set_queues(cluster.namesrv, cluster.addresses["broker-a"], "orders", 3)
    send_to(cluster.namesrv, MessageQueue("orders", "broker-a", 2), [b"2", b"3"])
    assert [bodies(batch) for batch in stream.run()] == [[2, 3]]


def test_stream_starts_at_the_latest_unless_an_option_says_otherwise(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"1", b"2", b"3"])
    latest = Stream(spark, cluster.namesrv, "orders", tmp_path / "latest", startingOffsets="latest")
    assert [bodies(batch) for batch in latest.run()] == [[]]
    second = Stream(
        spark, cluster.namesrv, "orders", tmp_path / "second", startingOffsets='{"orders":{"broker-a":{"0":1}}}'
    )
    assert [bodies(batch) for batch in second.run()] == [[2, 3]]
    send_to(cluster.namesrv, FIRST, [b"4"])
    assert [bodies(batch) for batch in second.run()] == [[4]]


def test_running_stream_sees_what_comes(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=1)
    options = {"nameServer": cluster.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
    reading = spark.readStream.format("staticfire").options(**options).load()
    with InMemory(reading, "seen", tmp_path) as stream:
        for number in range(3):
            send_to(cluster.namesrv, FIRST, [b"%d" % number])
            stream.query.processAllAvailable()
            assert bodies(spark.table("seen").collect()) == list(range(number + 1))


def test_pattern_meets_new_topics_while_the_query_runs_and_only_what_matches_comes(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    options = {"nameServer": cluster.namesrv, "subscribePattern": "log-.*", "expression": "paid"}
    reading = spark.readStream.format("staticfire").options(**options).load()
    with InMemory(reading, "met", tmp_path) as stream:  # It has begun at the latest of nothing.
        for number in range(3):
            cluster.create_topic(f"log-{number}", queues=1)
            send(cluster.namesrv, numbered(f"log-{number}", 30, start=90 * number))
            while spark.table("met").count() < 10 * (number + 1):
                assert stream.query.exception() is None
                stream.query.processAllAvailable()
        assert bodies(spark.table("met").collect()) == [n for n in range(270) if n % 90 < 30 and n % 3 == 0]
        of_brokers = [broker for topic in last_offsets(stream.checkpoint).values() for broker in topic.values()]
        assert sum(sum(queues.values()) for queues in of_brokers) == 90


def test_topic_created_again_fails_the_stream_or_is_read_from_its_begin(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"%d" % number for number in range(50)])
    strict = Stream(spark, cluster.namesrv, "orders", tmp_path)
    assert len(strict.run()) == 1
    cluster.reset()
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"100", b"101"])
    with pytest.raises(
        StreamingQueryException, match=r"wanted offset 50 .* the broker has 0 to 2; .*failOnDataLoss=false"
    ):
        strict.run()
    lenient = Stream(spark, cluster.namesrv, "orders", tmp_path, failOnDataLoss=False)
    assert [bodies(batch) for batch in lenient.run()] == [[100, 101]]
    assert lenient.run() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is only for batch queries"),
        ({"subscribe": "nothing"}, "subscribe=nothing: no route to topic nothing"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger=-1: write a whole number of at least 1"),
    ],
)
def test_bad_stream_is_reported_in_one_line(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, options: dict[str, str], words: str
) -> None:
    cluster.create_topic("orders", queues=1)
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=words):
        Stream(spark, cluster.namesrv, "orders", tmp_path, **options).run()
