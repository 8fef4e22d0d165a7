"""Batch reads, in a real Spark."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import Message, MessageQueue
from tests.pipeline.stand import bodies, frame, numbered, rows, send, send_to

pytestmark = pytest.mark.spark

FIRST = MessageQueue("orders", "broker-a", 0)


def test_batch_of_several_topics_and_queues_is_what_was_sent(spark: SparkSession, cluster: Cluster) -> None:
    for topic in ("orders", "payments"):
        cluster.create_topic(topic, queues=3)
    sent = [Message("orders", b"%d" % number, tags="paid", keys=["k", str(number)], flag=7) for number in range(300)]
    sent += [Message("payments", b"%d" % number, properties={"who": "me"}) for number in range(300, 400)]
    results = send(cluster.namesrv, sent)
    read = rows(spark, cluster.namesrv, "orders,payments")
    places = {(row.topic, row.brokerName, row.queueId, row.queueOffset): row for row in read}
    assert len(read) == len(places) == 400
    for message, result in zip(sent, results, strict=True):
        row = places[*result.queue, result.queue_offset]
        assert (bytes(row.body), row.flag, row.messageId) == (message.body, message.flag, result.message_id)
        assert (row.tags, row.keys) == (message.tags or None, " ".join(message.keys) or None)
        assert row.reconsumeTimes == 0
    assert {(row.brokerName, row.queueId) for row in read} == {
        (name, n) for name in cluster.addresses for n in range(3)
    }


def test_properties_come_as_a_map_on_request(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, [Message("orders", b"1", properties={"who": "me", "größe": "é"})])
    plain = frame(spark, cluster.namesrv, "orders")
    assert "properties" not in plain.columns
    (row,) = rows(spark, cluster.namesrv, "orders", includeProperties=True)
    assert (row.properties["who"], row.properties["größe"]) == ("me", "é")
    assert row.properties["UNIQ_KEY"] == row.messageId


def test_offsets_by_queue_bound_a_batch(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    send_to(cluster.namesrv, FIRST, [b"%d" % number for number in range(20)])
    bounds = {
        "startingOffsets": '{"orders":{"broker-a":{"0":5,"1":-2}}}',
        "endingOffsets": '{"orders":{"broker-a":{"0":12,"1":-1}}}',
    }
    assert bodies(rows(spark, cluster.namesrv, "orders", **bounds)) == list(range(5, 12))


def test_timestamps_of_message_time_bound_a_batch(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, numbered("orders", 30))
    cluster.clock.advance(hours=1)
    send(cluster.namesrv, numbered("orders", 10, start=100))
    middle = cluster.clock.now().message_ms - 1_800_000
    assert bodies(rows(spark, cluster.namesrv, "orders", startingTimestamp=middle)) == list(range(100, 110))
    assert bodies(rows(spark, cluster.namesrv, "orders", endingTimestamp=middle)) == list(range(30))
    (newest,) = frame(spark, cluster.namesrv, "orders").selectExpr("max(storeTimestamp)").collect()[0]
    assert newest.replace(tzinfo=UTC) > datetime.fromtimestamp(middle / 1000, UTC)


def test_tag_expression_chooses_messages(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, numbered("orders", 90))
    # "Aa" and "BB" have one hash code: the broker can't tell them apart.
    send(cluster.namesrv, [Message("orders", b"1000", tags="Aa"), Message("orders", b"2000", tags="BB")])
    read = rows(spark, cluster.namesrv, "orders", subExpression="paid || Aa")
    assert bodies(read) == [*range(0, 90, 3), 1000]
    ((count,),) = (
        frame(spark, cluster.namesrv, "orders", subExpression="open", minPartitions=9).selectExpr("count(*)").collect()
    )
    assert count == 30


def test_condition_and_pattern_read_what_spark_would_keep_of_everything(spark: SparkSession, cluster: Cluster) -> None:
    for topic in ("log-a", "log-b", "orders"):
        cluster.create_topic(topic, queues=2)
    for topic, start in (("log-a", 0), ("log-b", 200), ("orders", 400)):
        many = [
            Message(topic, b"%d" % n, tags="ab"[n % 2], properties={"n": str(n)}) for n in range(start, start + 200)
        ]
        send(cluster.namesrv, many)
    reader = spark.read.format("staticfire").option("nameServer", cluster.namesrv)
    everything = reader.option("subscribePattern", "log-.*").option("includeProperties", "true").load()
    kept = everything.where("tags = 'a' AND int(properties['n']) > 150").select("topic", "body")
    chosen = reader.option("expression", "TAGS = 'a' AND n > 150").option("minPartitions", "7").load()
    assert sorted(chosen.select("topic", "body").collect()) == sorted(kept.collect())
    assert bodies(chosen.collect()) == list(range(152, 400, 2))


def test_partitions_are_queues_and_large_ones_are_split(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, numbered("orders", 800))
    whole = frame(spark, cluster.namesrv, "orders")
    assert whole.rdd.getNumPartitions() == 4
    split = frame(spark, cluster.namesrv, "orders", minPartitions=8)
    assert split.rdd.getNumPartitions() >= 8
    assert bodies(split.collect()) == list(range(800))


def test_schema_of_the_query_makes_only_its_columns(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    send(cluster.namesrv, numbered("orders", 3))
    reader = spark.read.format("staticfire").option("nameServer", cluster.namesrv).option("subscribe", "orders")
    read = reader.schema("queueOffset bigint, body binary").load()
    assert read.columns == ["queueOffset", "body"]
    assert bodies(read.collect()) == [0, 1, 2]


def test_large_messages_and_small_pulls_come_whole(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    large = [bytes([number]) * 700_000 for number in range(8)]
    send_to(cluster.namesrv, FIRST, large)
    assert [bytes(row.body) for row in rows(spark, cluster.namesrv, "orders")] == large
    assert len(rows(spark, cluster.namesrv, "orders", pullBatchSize=1)) == 8


def test_empty_topic_is_an_empty_frame(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=4)
    assert rows(spark, cluster.namesrv, "orders") == []


def test_rocketmqs_protocol_reads_the_same(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    sent = [Message("orders", b"%d" % number * 2_000, tags="paid") for number in range(1, 40)]
    send(cluster.namesrv, sent)
    columns = ["brokerName", "queueId", "queueOffset", "body", "storeTimestamp", "messageId", "tags"]
    native = frame(spark, cluster.namesrv, "orders").select(columns).collect()
    foreign = frame(spark, cluster.namesrv, "orders", protocol="rocketmq").select(columns).collect()
    assert sorted(native) == sorted(foreign)
    assert len(native) == 39


def test_offsets_that_are_not_there_fail_or_are_left_out(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"%d" % number for number in range(10)])
    bounds = {"endingOffsets": '{"orders":{"broker-a":{"0":50}}}'}
    words = "wanted offsets 0 to 50, the broker has 0 to 10; .* set failOnDataLoss=false"
    with pytest.raises(PySparkException, match=words):
        rows(spark, cluster.namesrv, "orders", **bounds)
    assert bodies(rows(spark, cluster.namesrv, "orders", failOnDataLoss=False, **bounds)) == list(range(10))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nothing"}, "subscribe=nothing: no route to topic nothing at nameserver .*; create it with"),
        (
            {"nameServer": "127.0.0.1:1"},
            "nameServer=127.0.0.1:1: no nameserver responds .* check that one is running there",
        ),
        ({"startingofset": "1"}, "startingofset is not an option .* did you mean startingOffsets?"),
        ({"startingOffsets": '{"orders":{"broker-a":{"9":0}}}'}, "there is no queue orders broker-a/9; orders has"),
        ({"expression": "a = "}, 'expression=a =: Encountered "<EOF>" at line 1'),
        ({"startingOffsets": "latest"}, "startingOffsets=latest: a batch that starts at the end reads nothing"),
    ],
)
def test_bad_query_is_reported_in_one_line(
    spark: SparkSession, cluster: Cluster, options: dict[str, str], words: str
) -> None:
    cluster.create_topic("orders", queues=1)
    reader = spark.read.format("staticfire").option("nameServer", cluster.namesrv).option("subscribe", "orders")
    with pytest.raises(PySparkException, match=words):
        reader.options(**options).load().collect()


def test_bad_schema_is_reported_in_one_line(spark: SparkSession, cluster: Cluster) -> None:
    reader = spark.read.format("staticfire").option("nameServer", cluster.namesrv).option("subscribe", "orders")
    with pytest.raises(PySparkException, match="schema: queueOffset is a bigint, not a int"):
        reader.schema("queueOffset int").load().collect()
    with pytest.raises(PySparkException, match=r"schema: key is not a column .* did you mean keys"):
        reader.schema("key string").load().collect()
