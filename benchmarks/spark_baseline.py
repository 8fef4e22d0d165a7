"""A streaming source that sends no requests: the cost of a micro-batch in Spark itself. Needs the extra [spark]."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from staticfire.pipeline.schema import arrow_schema, spark_schema


class EmptySource(DataSource):
    """A source with increasing offsets and no rows: `batches` micro-batches of `partitions` partitions."""

    @classmethod
    def name(cls) -> str:
        return "staticfire_bench_empty"

    def schema(self) -> StructType:
        return spark_schema(include_properties=False)

    def streamReader(self, schema: StructType) -> "EmptyReader":  # noqa: N802 (Spark's name)
        return EmptyReader(int(self.options["batches"]), int(self.options["partitions"]), arrow_schema(schema))


class EmptyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Returns empty batches."""

    def __init__(self, batches: int, partitions: int, schema: pa.Schema) -> None:
        self._batches = batches
        self._partitions = partitions
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Do nothing, since the number of batches is fixed."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        return ReadMaxRows(1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema=self._schema)
