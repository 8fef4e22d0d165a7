"""A bounded read that takes a query's filters along. Only with `pushDownFilters`: Spark refuses a reader that could,
as long as its setting `spark.sql.python.filterPushdown.enabled` is off."""

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from staticfire.pipeline.batch_reader import BatchReader
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pushing import Pushed, push


class PushingReader(BatchReader):
    """Reads at least what the filters keep."""

    _pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Return all of them: Spark looks again at what comes."""
        self._pushed = push(filters)
        self._options = self._pushed.options(self._options)
        return filters

    def narrow(self, ranges: list[QueueRange]) -> list[QueueRange]:
        return self._pushed.narrow(ranges)
