"""Start a query again if Spark gave up its Python worker.

A streaming query with a Python data source has a Python process of its own, next to the driver. Spark waits 10 s for it
(PythonWorkerFactory.createSimpleWorker), no setting changes that, and the query fails if the machine is too busy.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.pipeline.jobs.failures import failures_of_spark
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STARTS_MAX = 3
SPARKS_WORDS = "Python worker failed to connect back"
log = logger("pipeline")


def run_query(start: Callable[[], "StreamingQuery"], follow: Callable[["StreamingQuery"], None]) -> None:
    """Start a query and follow it to its end; a query that is started again continues where its checkpoint is.

    Raises: what the query failed with, also if that was a late worker STARTS_MAX times.
    """
    for starts in range(1, STARTS_MAX + 1):
        try:
            return follow(start())
        except failures_of_spark() as failure:
            if SPARKS_WORDS not in str(failure) or starts == STARTS_MAX:
                raise
            log.warning("query_restarted", reason="Spark waited 10 s for its Python worker", starts=starts + 1)
