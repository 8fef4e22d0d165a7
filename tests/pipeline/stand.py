"""What tests of the data source send, and how they read it."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from staticfire import Cluster
from staticfire.client import Message, MessageQueue, Producer, ProducerSettings, ReceivedMessage, SendResult
from staticfire.client.admin.peek import peek_messages
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.pipeline.jobs.late_worker import run_query
from staticfire.pipeline.offsets import from_checkpoint, to_checkpoint
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.requests.topics import UpdateTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ASK_TIMEOUT_MS = 30_000
PATIENT = ProducerSettings(send_msg_timeout_ms=60_000)
# Spark and its workers want both cores.


def send(namesrv: str, messages: Iterable[Message]) -> list[SendResult]:
    """Send messages and wait until they are stored."""

    async def run() -> list[SendResult]:
        async with Producer("tests", namesrv, PATIENT) as producer:
            return await producer.send_many(list(messages))

    return asyncio.run(run())


def send_to(namesrv: str, queue: MessageQueue, bodies: Sequence[bytes]) -> None:
    """Send bodies to one queue, in order."""

    async def run() -> None:
        async with Producer("tests", namesrv, PATIENT) as producer:
            for body in bodies:
                await producer.send(Message(queue.topic, body), queue=queue)

    asyncio.run(run())


def numbered(topic: str, count: int, start: int = 0) -> list[Message]:
    """Return messages whose bodies count up; every third is tagged `paid`, the next `open`, the third isn't."""
    tags = ("paid", "open", "")
    return [Message(topic, b"%d" % number, tags=tags[number % 3]) for number in range(start, start + count)]


def messages(cluster: Cluster, topic: str) -> list[ReceivedMessage]:
    """Return all messages of a topic, read by our own client."""

    async def run() -> list[ReceivedMessage]:
        async with PullConsumer(TOOLS_GROUP, cluster.namesrv) as reader:
            return await peek_messages(reader, await reader.queues(topic), 100_000)

    return asyncio.run(run())


def rows(spark: "SparkSession", namesrv: str, topics: str, **options: object) -> "list[Row]":
    """Read a batch."""
    return frame(spark, namesrv, topics, **options).collect()


def frame(spark: "SparkSession", namesrv: str, topics: str, **options: object) -> "DataFrame":
    """Return a batch query."""
    texts = {name: str(value) for name, value in options.items()}
    reader = spark.read.format("staticfire").option("nameServer", namesrv).option("subscribe", topics)
    return reader.options(**texts).load()


class Stream:
    """A streaming query that can be run again and again; each run reads what there is, and ends."""

    def __init__(self, spark: "SparkSession", namesrv: str, topics: str, folder: Path, **options: object) -> None:
        self._spark = spark
        self._options = {"nameServer": namesrv, "subscribe": topics, "startingOffsets": "earliest"}
        self._options |= {name: str(value) for name, value in options.items()}
        self.checkpoint = folder / "checkpoint"

    def run(self) -> "list[list[Row]]":
        """Return the rows of each micro-batch."""
        batches: dict[int, list[Row]] = {}

        def keep(batch: Any, number: int) -> None:
            batches[number] = batch.collect()

        reading = self._spark.readStream.format("staticfire").options(**self._options).load()
        writing = reading.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        run_to_its_end(writing)
        return [batches[number] for number in sorted(batches)]


def _follow(query: "StreamingQuery") -> None:
    query.awaitTermination()


def run_to_its_end(writing: "DataStreamWriter") -> None:
    """Run a query that ends when it has read what there is."""
    run_query(writing.trigger(availableNow=True).start, _follow)


class InMemory:
    """A running query that keeps all rows in the memory of Spark, as a table of this name."""

    def __init__(self, reading: "DataFrame", table: str, folder: Path) -> None:
        self._writing = reading.writeStream.format("memory").queryName(table)
        self._folder = folder

    def __enter__(self) -> Self:
        run_query(self._start, lambda query: query.processAllAvailable())
        return self

    def _start(self) -> "StreamingQuery":
        self.checkpoint = self._folder / uuid4().hex  # A table in memory can't continue where a checkpoint is.
        self.query = self._writing.option("checkpointLocation", str(self.checkpoint)).start()
        return self.query

    def __exit__(self, *_: object) -> None:
        self.query.stop()


def bodies(read: "Iterable[Row]") -> list[int]:
    """Return the numbers in the bodies, sorted."""
    return sorted(int(bytes(row.body)) for row in read)


def offsets_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint without its known messages."""
    return to_checkpoint(from_checkpoint(checkpoint))


def set_queues(namesrv: str, address: str, topic: str, queues: int) -> None:
    """Give a topic another number of queues on one broker."""

    async def run() -> Answer:
        async with ClusterClient(namesrv) as client:
            request = UpdateTopic(
                topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6, topic_filter_type="SINGLE_TAG"
            )
            return await client.pool.ask(address, request, ASK_TIMEOUT_MS)

    assert asyncio.run(run()).code == ResponseCode.SUCCESS
