"""Keeps the tables of a look up to date with a running cluster, until it is interrupted.

A streaming ingest brings messages. Between its batches brokers are asked what is new: consumption alone stores nothing,
but is noted in journals and moves the groups' offsets. Tables are made anew when anything has come, once for however
many batches there were meanwhile. A topic that comes later (retries, dead letters, a new one) is read from then on: the
ingest begins anew with it, where it was.

A cluster that can't be asked for a while (a broker starts again) is asked again; whether it stays away is for the
ingest to say, which waits as long as its source does (reconnectTimeoutMs).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from staticfire.pipeline.consumption.findings import ConsumptionFindings
from staticfire.pipeline.consumption.gathering import Noticed, gather, ingest_settings, notice
from staticfire.pipeline.consumption.job import tell
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from staticfire.pipeline.jobs.ingest import Batch

Told = Callable[[ConsumptionFindings], None]
log = logger("pipeline")


class _TopicsCameError(Exception):
    """There are topics that the running ingest doesn't read."""

    def __init__(self, noticed: Noticed) -> None:
        super().__init__()
        self.noticed = noticed


def follow(spark: "SparkSession", settings: ConsumptionSettings, told: Told) -> None:
    """Tell what there is, and again whenever there is more, until interrupted or the query is stopped.

    Raises: UsageError, ClientError, NetworkError, and what Spark raises.
    """
    from staticfire.pipeline.jobs.ingest import ingest

    noticed = gather(spark, settings)
    told(tell(spark, settings))
    follower = _Follower(spark, settings, told, noticed)
    while True:
        try:
            ingest(spark, ingest_settings(settings, noticed, True), follower.came, follower.between)
            return
        except _TopicsCameError as came:
            noticed = came.noticed


class _Follower:
    """Hears of batches, and asks the cluster between them."""

    def __init__(self, spark: "SparkSession", settings: ConsumptionSettings, told: Told, noticed: Noticed) -> None:
        """`noticed`: what the tables were made of."""
        self._spark = spark
        self._settings = settings
        self._told = told
        self._noticed = noticed
        self._clock = live_machine().clock
        self._next_ms = UptimeMs(0)
        self._is_stale = False
        self._fault = ""

    def came(self, _: "Batch") -> None:
        """Note that there are new messages."""
        self._is_stale = True

    def between(self) -> None:
        """Look whether anything is new, as often as wanted, and make the tables anew. Raises: _TopicsCameError."""
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
            self._told(tell(self._spark, self._settings))

    def _notice(self) -> Noticed | None:
        """Return what there is now, None when it can't be asked."""
        try:
            found = notice(self._settings)
        except StaticfireError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                log.warning("cluster_not_asked", reason=self._fault, again_ms=self._settings.trigger_ms)
            return None
        self._fault = ""
        return found
