"""A batch read that pushes a query's filters to brokers. Only with `pushDownFilters`: Spark refuses a reader that can
do this while its setting `spark.sql.python.filterPushdown.enabled` is off."""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from staticfire.pipeline.batch_reader import BatchReader
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pushing import Pushed, push


class PushingReader(BatchReader):
    """Reads at least the messages that the filters keep."""

    _pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Return all filters, so that Spark applies them again."""
        self._pushed = push(filters)
        self._options = self._pushed.options(self._options)
        return filters

    def narrow(self, ranges: list[QueueRange]) -> list[QueueRange]:
        return self._pushed.narrow(ranges)
