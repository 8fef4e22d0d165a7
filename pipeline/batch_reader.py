"""A batch read, and how one range of a queue is read."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.batch_plan import plan_batch
from staticfire.pipeline.batches import BatchMaker
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.runtime.log import logger

log = logger("pipeline")


class BatchReader(DataSourceReader):
    """Reads a fixed set of messages."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        if options.max_offsets_per_trigger is not None:
            log.warning("option_ignored", option="maxOffsetsPerTrigger", reason="it is only for streaming queries")

    def partitions(self) -> list[InputPartition]:
        async def plan(client: ClusterClient) -> list[QueueRange]:
            return await plan_batch(client, self._options, self.narrow)

        return [InputPartition(each) for each in link_to(self._options).ask(plan)]

    def narrow(self, ranges: list[QueueRange]) -> list[QueueRange]:
        """Return the part of the ranges that must be read."""
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition.value)


def read_range(options: SourceOptions, schema: pa.Schema, wanted: QueueRange | None) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one range. For an empty plan, Spark passes a partition with None.

    Raises: DataLost, SourceUnreachable.
    """
    if wanted is None:
        return
    link = link_to(options)

    async def begin(client: ClusterClient) -> PullAhead:
        return PullAhead(client, options, wanted)

    pulls = link.ask(begin)
    maker = BatchMaker(options, wanted, schema)
    try:
        while (pulled := link.ask(lambda _: pulls.take())) is not None:
            for batch in maker.batches(pulled):
                if batch.num_rows:
                    yield batch
    finally:
        link.ask(lambda _: pulls.stop())
