"""The sink's interface to Spark: thin classes that use rows.py and sending.py.

    frame.write.format("staticfire").option("topic", "out").mode("append").save()
    stream.writeStream.format("staticfire").option("topic", "out").option("checkpointLocation", ...).start()

A task's write returns when brokers have acknowledged its rows, so each row is sent at least once. A retried task sends
its rows again. Each message identifies its row (rows.py), so that copies can be recognised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.link import link_to
from staticfire.pipeline.row_messages import RowError, RowMessage
from staticfire.pipeline.rows import messages_of
from staticfire.pipeline.sending import RowSender, SentRows
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    import pyarrow as pa

log = logger("pipeline")

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a micro-batch."""


@dataclass
class TaskRows(WriterCommitMessage):
    """The result of sending one task's rows."""

    sent: int = 0
    failed: int = 0
    examples: list[str] = field(default_factory=list)


class BatchWriter(DataSourceArrowWriter):
    """Writes the result of a batch query."""

    def __init__(self, options: SinkOptions, run: str) -> None:
        """`run`: an id for this write, the same in all retries of its tasks."""
        self._options = options
        self._run = run

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskRows:
        return write_rows(self._options, iterator, self._run)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        _tell("rows_written", _total(messages), self._options)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        _tell("write_aborted", _total(messages), self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskRows:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        return write_rows(self._options, iterator, f"{query}-{batch}")

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 (Spark's name)
        _tell("rows_written", _total(messages), self._options, batchId)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 (Spark's name)
        _tell("write_aborted", _total(messages), self._options, batchId)


def write_rows(options: SinkOptions, batches: "Iterator[pa.RecordBatch]", run: str) -> TaskRows:
    """Send the rows of one task; return the result. Raises: RowsNotSent, SourceUnreachable."""
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    link = link_to(options)

    async def begin(client: ClusterClient) -> RowSender:
        return await RowSender(client, options).open()

    sender = link.ask(begin)
    position = 0
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, options.rows_per_send):
                part = batch.slice(start, options.rows_per_send)
                rows = list(messages_of(part, options, position + start, f"{run}-{partition}"))
                link.ask(partial(_offer, sender, rows))
            position += batch.num_rows
        found = link.ask(lambda _: sender.finish())
    finally:
        link.ask(lambda _: sender.close())
    return TaskRows(found.sent, found.failed, found.examples)


async def _offer(sender: RowSender, rows: "Sequence[RowMessage | RowError]", _: ClusterClient) -> None:
    await sender.offer(rows)


def _total(messages: "Sequence[WriterCommitMessage | None]") -> SentRows:
    total = SentRows()
    for one in messages:
        if isinstance(one, TaskRows):
            total.add(SentRows(one.sent, one.failed, one.examples))
    return total


def _tell(event: str, rows: SentRows, options: SinkOptions, batch: int | None = None) -> None:
    """Log the result if rows failed or the write was aborted."""
    if rows.failed or event != "rows_written":
        log.warning(event, topic=options.topic or "column topic", batch=batch, rows=str(rows))
