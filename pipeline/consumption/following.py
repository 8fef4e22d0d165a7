"""Keep the tables up to date with a running cluster, until it is interrupted.

A streaming ingest reads the messages. Between its batches, brokers are queried: consumption stores no messages, but it
appears in journals and moves the groups' offsets. When there is anything new, the tables are made again, once for all
batches in the meantime. A topic that appears later (retries, dead letters, a new one) is read from then on: the ingest
is restarted with it, and continues where it was.

If the cluster doesn't respond for a while (a broker restarts), it is queried again. The ingest decides when it has been
away for too long; it waits as long as its source does (reconnectTimeoutMs).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.pipeline.consumption.findings import ConsumptionFindings
from staticfire.pipeline.consumption.gathering import Noticed, gather, ingest_settings, notice
from staticfire.pipeline.consumption.job import tell, with_results
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from staticfire.pipeline.jobs.ingest import Batch

OnResult = Callable[[ConsumptionFindings], None]
log = logger("pipeline")


class _TopicsCameError(Exception):
    """There are new topics, which the running ingest doesn't read."""

    def __init__(self, noticed: Noticed) -> None:
        super().__init__()
        self.noticed = noticed


def follow(spark: "SparkSession", settings: ConsumptionSettings, on_result: OnResult) -> None:
    """Report the results, and again whenever there is new data, until interrupted or the query is stopped.

    No other job can write to the folder meanwhile. Raises: UsageError, ClientError, NetworkError, what Spark raises.
    """
    from staticfire.pipeline.jobs.lock import CONSUMPTION_LOCK_NAME, folder_lock

    noticed = gather(spark, settings)
    settings = with_results(spark, settings)
    with folder_lock(spark, CONSUMPTION_LOCK_NAME, settings.folder, settings.result_folder):
        _follow(spark, settings, on_result, noticed)


def _follow(spark: "SparkSession", settings: ConsumptionSettings, on_result: OnResult, noticed: Noticed) -> None:
    from staticfire.pipeline.jobs.ingest import ingest

    on_result(tell(spark, settings))
    follower = _Follower(spark, settings, on_result, noticed)
    while True:
        try:
            ingest(spark, ingest_settings(settings, noticed, True), follower.came, follower.between)
            return
        except _TopicsCameError as came:
            noticed = came.noticed


class _Follower:
    """Receives the batches, and queries the cluster between them."""

    def __init__(
        self, spark: "SparkSession", settings: ConsumptionSettings, on_result: OnResult, noticed: Noticed
    ) -> None:
        """`noticed`: the state that the current tables are based on."""
        self._spark = spark
        self._settings = settings
        self._on_result = on_result
        self._noticed = noticed
        self._clock = live_machine().clock
        self._next_ms = UptimeMs(0)
        self._is_stale = False
        self._fault = ""

    def came(self, _: "Batch") -> None:
        """Note that there are new messages."""
        self._is_stale = True

    def between(self) -> None:
        """Query the cluster, at most once per interval. Make the tables again if needed. Raises: _TopicsCameError."""
        now_ms = self._clock.uptime_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = UptimeMs(now_ms + self._settings.trigger_ms)
        before, now = self._noticed, self._notice()
        if now is not None:
            self._noticed = now
            self._is_stale |= now.stand != before.stand
            if {*now.topics, *now.dead_letters} - {*before.topics, *before.dead_letters}:
                raise _TopicsCameError(now)
        if self._is_stale:
            self._is_stale = False
            self._on_result(tell(self._spark, self._settings))

    def _notice(self) -> Noticed | None:
        """Return the cluster's current state, or None if it doesn't respond."""
        try:
            found = notice(self._settings)
        except StaticfireError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                log.warning("cluster_not_asked", reason=self._fault, again_ms=self._settings.trigger_ms)
            return None
        self._fault = ""
        return found
