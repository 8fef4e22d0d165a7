"""The data source `staticfire`: its interface to Spark, thin classes that use plans and pulls.

    spark.read.format("staticfire").option("subscribe", "orders").load()
    spark.readStream.format("staticfire").option("subscribe", "orders").load()
    frame.write.format("staticfire").option("topic", "orders").mode("append").save()

Spark creates these objects in several processes and sends them between processes: they contain options, no connections.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from staticfire.pipeline.batch_reader import BatchReader, read_range
from staticfire.pipeline.link import link_to
from staticfire.pipeline.offsets import Checkpoint
from staticfire.pipeline.options import SourceOptions, check_for_batch, check_for_stream, parse_options
from staticfire.pipeline.rows import check_columns
from staticfire.pipeline.schema import arrow_schema, spark_schema
from staticfire.pipeline.sink_options import parse_sink_options
from staticfire.pipeline.stream_plan import StreamPlan
from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine

if TYPE_CHECKING:
    from staticfire.pipeline.sink import BatchWriter, StreamWriter


class StaticfireSource(DataSource):
    """Messages of RocketMQ topics as rows, and rows as messages."""

    @classmethod
    def name(cls) -> str:
        return "staticfire"

    def schema(self) -> StructType:
        return spark_schema(self._parsed().include_properties)

    def reader(self, schema: StructType) -> "BatchReader":
        options = self._parsed()
        check_for_batch(options)
        if options.push_down_filters:
            from staticfire.pipeline.pushing_reader import PushingReader

            return PushingReader(options, arrow_schema(schema))
        return BatchReader(options, arrow_schema(schema))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 (Spark's name)
        options = self._parsed()
        check_for_stream(options)
        return StreamReader(options, arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from staticfire.pipeline.sink import BatchWriter

        if overwrite:
            raise UsageError('mode("overwrite"): a topic is never overwritten; write mode("append")')
        options = parse_sink_options(dict(self.options), os.environ)
        check_columns(schema, options)
        return BatchWriter(options, f"{live_machine().identity.random.getrandbits(128):032x}")

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802 (Spark's name)
        from staticfire.pipeline.sink import StreamWriter

        if overwrite:
            raise UsageError(
                'outputMode("complete"): rows are added to a topic; write outputMode("append") or "update"'
            )
        options = parse_sink_options(dict(self.options), os.environ)
        check_columns(schema, options)
        return StreamWriter(options)

    def _parsed(self) -> SourceOptions:
        return parse_options(dict(self.options), os.environ)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. The state of the cluster is kept only in the process that plans the query."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._plan: StreamPlan | None = None
        self._initial: Checkpoint | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_plan": None}

    @property
    def plan(self) -> StreamPlan:
        """The plan, made on first use. Processes that only read partitions never make one."""
        if self._plan is None:
            self._plan = StreamPlan(self._options, link_to(self._options))
        return self._plan

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        if self._initial is None:  # Spark asks twice, and "latest" must mean the same offsets both times.
            self._initial = self.plan.initial()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        self.plan.freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return self.plan.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(each) for each in self.plan.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition.value)
