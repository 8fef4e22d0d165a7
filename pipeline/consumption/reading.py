"""Read the tables as plain values, as many rows as fit on a page. Spark has computed all totals before."""

from typing import TYPE_CHECKING, Any

from staticfire.pipeline.consumption import findings as found
from staticfire.pipeline.consumption.queries import SPAN
from staticfire.pipeline.consumption.sources import Sources
from staticfire.pipeline.jobs.analysis import Analysis
from staticfire.protocol.durations import format_moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS_TOLD_MAX = 4
HOLDINGS_MAX = 1_500
ROWS_MAX = 500
LEDGER = """
    SELECT consumer, outcome, messageId, reconsumeTimes, endedAt AS consumedAt FROM attempts
    WHERE groupName = :group AND topic = :topic AND outcome <> 'open'
"""
FIRST_STORED = "SELECT messageId, storedAt, copies FROM life WHERE groupName = :group AND topic = :topic"
QUEUE = "concat(topic, ' ', brokerName, ' ', queueId)"


class TableReader:
    """Reads the tables of one run."""

    def __init__(self, spark: "SparkSession", sources: Sources) -> None:
        self._spark = spark
        self._sources = sources

    def findings(self) -> found.ConsumptionFindings:
        """Return the content of the page."""
        (span,) = self._rows(SPAN)
        began_ms = span.beganMs or 0
        pairs = tuple(found.Pair(*row) for row in self._rows(_PAIRS, most=ROWS_MAX))
        holdings = self._rows(_HOLDINGS, began=began_ms, most=HOLDINGS_MAX)
        (holding_count,) = self._rows("SELECT count(*) AS count FROM ownership WHERE NOT startswith(topic, '%')")
        limits = {"most": ROWS_MAX}
        return found.ConsumptionFindings(
            self._sources.told_by,
            self._sources.has_journal,
            format_moment(began_ms),
            (span.endedMs or began_ms) - began_ms,
            pairs,
            {(pair.group, pair.topic): self._answers(pair) for pair in pairs[:PAIRS_TOLD_MAX]},
            tuple(found.QueueHolding(*row) for row in holdings),
            max(0, holding_count["count"] - len(holdings)),
            tuple(found.Rebalance(*row) for row in self._rows(_REBALANCES, began=began_ms, **limits)),
            tuple(found.DelayLevel(*row) for row in self._rows(_DELAYS)),
            tuple(found.LagMoment(*row) for row in self._rows(_LAG, began=began_ms, most=4 * ROWS_MAX)),
            tuple(found.MemberShare(*row) for row in self._rows(_MEMBERS, **limits)),
            tuple(found.QueueShare(*row) for row in self._rows(_QUEUES, **limits)),
            tuple(found.Stuck(*row) for row in self._rows(_STUCK, **limits)),
            tuple(found.Cause(*row) for row in self._rows(_CAUSES, **limits)),
            tuple(found.Overlap(*row) for row in self._rows(_OVERLAPS, **limits)),
        )

    def _answers(self, pair: found.Pair) -> Any:
        which = {"group": pair.group, "topic": pair.topic}
        self._spark.sql(LEDGER, which).createOrReplaceTempView("consumption")
        first_stored = self._spark.sql(FIRST_STORED, which)
        return Analysis(self._spark, pair.topic, pair.group, True, first_stored).answers()

    def _rows(self, text: str, **arguments: Any) -> list[Any]:
        return self._spark.sql(text, arguments).collect()


_PAIRS = """
    SELECT groupName, topic, messages, handled, dead, duplicates, measured, p50Ms, p90Ms, p99Ms, maxMs FROM latency
    ORDER BY messages DESC, groupName, topic LIMIT :most
"""
_HOLDINGS = f"""
    SELECT groupName, {QUEUE}, consumer, unix_millis(fromAt) - :began, unix_millis(toAt) - :began FROM ownership
    WHERE NOT startswith(topic, '%') ORDER BY groupName, topic, brokerName, queueId, realAt LIMIT :most
"""
_REBALANCES = """
    SELECT groupName, unix_millis(at) - :began, queues, members, tookMs, coalesce(cause, '') FROM rebalances
    ORDER BY at, groupName LIMIT :most
"""
_DELAYS = "SELECT level, delayMs, waits, early, p50LateMs, p99LateMs, maxLateMs FROM delays ORDER BY level"
_LAG = """
    SELECT groupName, topic, unix_millis(at) - :began, stored, handled, waiting FROM lag
    ORDER BY groupName, topic, at LIMIT :most
"""
_MEMBERS = """
    SELECT groupName, consumer, attempts, done, failed, open, sharePercent, queues FROM members
    ORDER BY groupName, attempts DESC, consumer LIMIT :most
"""
_QUEUES = f"""
    SELECT groupName, {QUEUE}, stored, handled, sharePercent, p99Ms FROM queues
    ORDER BY groupName, topic, brokerName, queueId LIMIT :most
"""
_STUCK = """
    SELECT groupName, topic, state, messages, date_format(oldestAt, 'yyyy-MM-dd HH:mm:ss.SSS'),
           array_join(examples, ' ') FROM stuck ORDER BY messages DESC LIMIT :most
"""
_CAUSES = """
    SELECT groupName, topic, cause, count(*) FROM duplicates GROUP BY ALL ORDER BY 4 DESC, 1, 2, 3 LIMIT :most
"""
_OVERLAPS = f"SELECT groupName, {QUEUE}, calls, maxMs FROM overlaps ORDER BY calls DESC, 2 LIMIT :most"
