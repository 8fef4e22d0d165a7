"""Write topics to partitioned Parquet, each stored message exactly once, with Spark's structured streaming.

Why it is exactly once, even if the driver is killed at any time:

- Spark records the offsets of a batch in the checkpoint before it reads them. A repeated batch reads the same offsets.
- The file sink's log lists the files of each batch. A batch whose number is in the log is skipped. So if a driver dies
  between the sink's commit and the checkpoint's, nothing is written twice.
- Files of the sink that its log doesn't list are left over from drivers that died. Readers that ignore the log (pandas,
  DuckDB) would count them, so they are deleted at each start and each end. Files of other programs are left alone.
- A checkpoint and its folder belong together (`card.py`), and only one driver at a time writes there (`lock.py`).

Exactly once refers to (topic, broker, queue, queue offset): a message that its producer sent twice is two messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from staticfire.pipeline.jobs.card import CARD_NAME, Card, check
from staticfire.pipeline.jobs.folder import SINK_LOG, HadoopFolder, data_path
from staticfire.pipeline.jobs.late_worker import run_query
from staticfire.pipeline.jobs.lock import LOCK_NAME, OutputLock
from staticfire.pipeline.jobs.settings import CHECKPOINT_NAME, IngestSettings
from staticfire.pipeline.jobs.topics import NewDeadLetters, topics_of
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OWN = frozenset({CARD_NAME, LOCK_NAME, CHECKPOINT_NAME})
LOOK_S = 0.2
DERIVED = {"storeDate": "to_date(storeTimestamp)", "storeHour": "date_format(storeTimestamp, 'yyyy-MM-dd-HH')"}


@dataclass(frozen=True, slots=True)
class Batch:
    """One committed batch."""

    number: int
    rows: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The result of one run."""

    topics: tuple[str, ...]
    batches: int
    rows: int
    swept_files: int
    """The number of deleted files of drivers that died. They were never in the log."""


def ingest(
    spark: "SparkSession",
    settings: IngestSettings,
    on_batch: Callable[[Batch], None] | None = None,
    between: Callable[[], None] | None = None,
) -> IngestReport:
    """Write all messages that exist now and return; with `continuous`, continue until the query is stopped.

    A dead letter topic that appears meanwhile is read from then on: the query is started again with it, and continues
    where its checkpoint is.

    `on_batch` is called with every batch, `between` several times per second. Raises: UsageError (folder, checkpoint),
    ClientError (no such topic, or another ingest writes there), NetworkError, and what Spark raises if the query fails.
    """
    topics = topics_of(settings)
    output, checkpoint = HadoopFolder(spark, settings.to), HadoopFolder(spark, settings.checkpoint_folder)
    source = _source(spark, settings, topics)
    wanted = _card(settings, topics, source)
    check(wanted, output.find(OWN, is_output=True), checkpoint.find(OWN))  # Before anything is created there.
    output.make()
    with _lock(spark, output, settings.lock_wait_ms) as lock:
        news = NewDeadLetters(settings, topics, live_machine().clock.uptime_ms)
        count = _Count(on_batch, between, news.came, output.last_logged_batch())
        swept = 0
        while True:
            card = check(wanted, output.find(OWN, is_output=True), checkpoint.find(OWN))
            checkpoint.make()
            output.put_card(card)
            checkpoint.put_card(card)
            swept += _sweep(spark, output, card) if lock else 0
            run_query(partial(_start, source, settings, output), count.follow)
            if news.topics == card.topics:
                break
            source = _source(spark, settings, news.topics)
            wanted = _card(settings, news.topics, source)
        swept += _sweep(spark, output, card) if lock else 0
    return IngestReport(news.topics, count.batches, count.rows, swept)


def read_ingested(spark: "SparkSession", place: str) -> "DataFrame":
    """Return the table that an ingest has written so far. Raises: UsageError (there is no ingest)."""
    from pyspark.sql.types import StructType

    folder = HadoopFolder(spark, place)
    card = folder.find(OWN).card
    if card is None:
        raise UsageError(f"{place} is not the folder of an ingest: it has no {CARD_NAME}")
    return spark.read.schema(StructType.fromJson(card.schema_json())).parquet(folder.uri)


def _card(settings: IngestSettings, topics: tuple[str, ...], source: "DataFrame") -> Card:
    new_id = f"{live_machine().identity.random.getrandbits(128):032x}"
    return Card(new_id, topics, settings.partition_by, source.schema.json())


def _source(spark: "SparkSession", settings: IngestSettings, topics: tuple[str, ...]) -> "DataFrame":
    """Return the stream, with the columns that it is partitioned by."""
    from pyspark.sql import functions

    frame = spark.readStream.format("staticfire").options(**settings.source_options(topics)).load()
    derived = {name: functions.expr(DERIVED[name]) for name in settings.partition_by if name in DERIVED}
    return frame.withColumns(derived)


def _lock(spark: "SparkSession", output: HadoopFolder, wait_ms: int) -> "AbstractContextManager[Any]":
    from contextlib import nullcontext

    local = output.local_path
    return OutputLock(spark, local, wait_ms) if local is not None else nullcontext()


def _start(source: "DataFrame", settings: IngestSettings, output: HadoopFolder) -> "StreamingQuery":
    writer = source.writeStream.format("parquet").partitionBy(*settings.partition_by).option("path", output.uri)
    writer = writer.option("checkpointLocation", settings.checkpoint_folder)
    if settings.continuous:
        return writer.trigger(processingTime=f"{settings.trigger_ms} milliseconds").start()
    return writer.trigger(availableNow=True).start()


def _sweep(spark: "SparkSession", output: HadoopFolder, card: Card) -> int:
    """Delete the sink's files that aren't in its log; return how many there were."""
    committed: set[str] = set()
    if output.has(SINK_LOG):
        committed = set(map(data_path, read_ingested(spark, output.uri).inputFiles()))
    orphans = [path for path in output.data_files(card.partition_by) if path not in committed]
    for path in orphans:
        output.delete_file(path)
    return len(orphans)


class _Count:
    """Follows a query to its end, and counts the committed batches and rows."""

    def __init__(
        self,
        on_batch: Callable[[Batch], None] | None,
        between: Callable[[], None] | None,
        is_over: Callable[[], bool],
        last: int,
    ) -> None:
        """`is_over`: called like `between`; the query is stopped when it returns True.

        `last`: the newest batch in the sink's log. If it is repeated, the sink skips it, so it adds no rows.
        """
        self._on_batch = on_batch
        self._between = between
        self._is_over = is_over
        self._last = last
        self.batches = 0
        self.rows = 0

    def follow(self, query: "StreamingQuery") -> None:
        """Wait for the query's end. An interrupt stops it between two checks. Raises: what the query failed with."""
        try:
            while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # takes fractions of a second, too
                self._look(query)
                if self._between is not None:
                    self._between()
                if self._is_over():
                    break
        finally:
            query.stop()
        self._look(query)

    def _look(self, query: "StreamingQuery") -> None:
        for progress in query.recentProgress:
            number, rows = int(progress["batchId"]), int(progress["numInputRows"])
            if number <= self._last or rows == 0:
                continue  # Counted already, or no new rows: idle queries report progress, too.
            self._last = number
            self.batches += 1
            self.rows += rows
            if self._on_batch is not None:
                self._on_batch(Batch(number, rows))
