"""Analyse ingested messages and consumers' ledgers with SQL: latencies, retries, dead letters.

There are two input tables. `messages`: the table of an ingest. `consumption`: the consumers' records, one row per
attempt:

    consumer string, outcome string ("done" or "failed"), messageId string, reconsumeTimes int, consumedAt timestamp

They are joined by the message id, which is the same in all retries. They use two clocks: `storeTimestamp` is message
time, `consumedAt` is the consumer's real time. Comparing them is valid only if message time was the real time (it was
never changed) and the machines' clocks agree. The statistics of retries use message time only, so they are valid in any
case.
"""

from typing import TYPE_CHECKING, Any

from staticfire.pipeline.jobs import queries
from staticfire.pipeline.jobs.answers import Answers, Consumer, Dead, Latency, Moment, Series, Try
from staticfire.protocol.names import dead_letter_topic, retry_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CURVE_POINTS = 200
SPANS_MS = (100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000)
# A curve with more points would look like a filled area.
MOMENTS_MAX = 120
NO_DEAD = Dead(0, 0, None)


class Analysis:
    """Analyses a topic and a group that consumes it. Uses the view `messages`, and for ledgers `consumption`."""

    def __init__(
        self,
        spark: "SparkSession",
        topic: str,
        group: str,
        has_ledgers: bool,
        first_stored: "DataFrame | None" = None,
    ) -> None:
        """`first_stored`: the messages for the group, in the form of queries.FIRST_STORED; None: all of the topic."""
        self._first_stored = first_stored
        self._spark = spark
        self._topic = topic
        self._group = group
        self._has_ledgers = has_ledgers

    def answers(self) -> Answers:
        """Return all results. Without ledgers, those that need them are None or empty."""
        if self._first_stored is None:
            self._view("first_stored", queries.FIRST_STORED, topic=self._topic)
        else:
            self._first_stored.createOrReplaceTempView("first_stored")
        views = ["first_stored"]
        if self._has_ledgers:
            self._view("first_handled", queries.FIRST_HANDLED)
            self._view("roads", queries.ROADS)
            views.append("roads")
        for view in views:
            self._spark.catalog.cacheTable(view)
        try:
            return self._ask()
        finally:
            for view in views:
                self._spark.catalog.uncacheTable(view)

    def _ask(self) -> Answers:
        total = self._row(queries.TOTAL)
        retries, dead = retry_topic(self._group), dead_letter_topic(self._group)
        returns = self._rows(queries.RETURNS, retries=retries, dead=dead)
        came_back = {row.times: row for row in returns if row.topic == retries}
        letters = next((Dead(one.stored, one.messages, one.afterMs) for one in returns if one.topic == dead), NO_DEAD)
        if not self._has_ledgers:
            return Answers(total.stored, total.messages, None, None, (), _tries(total, came_back, {}), letters, 0)
        tried = {row.times: row for row in self._rows(queries.TRIES)}
        return Answers(
            total.stored,
            total.messages,
            self._latency(),
            self._series(),
            tuple(Consumer(*row) for row in self._rows(queries.CONSUMERS)),
            _tries(total, came_back, tried),
            letters,
            self._row(queries.HANDLED_TWICE).more,
        )

    def _latency(self) -> Latency | None:
        row = self._row(queries.LATENCY, parts=[point / CURVE_POINTS for point in range(CURVE_POINTS + 1)])
        if row.measured == 0:
            return None
        p50_ms, p90_ms, p99_ms = row.parts
        return Latency(row.measured, p50_ms, p90_ms, p99_ms, row.most, tuple(row.curve))

    def _series(self) -> Series | None:
        span = self._row(queries.SPAN)
        if span.began is None:
            return None
        span_ms = span_of(span.ended - span.began)
        at = {"began": span.began, "span": span_ms}
        stored = {row.part: row for row in self._rows(queries.STORED_SERIES, **at)}
        handled = {row.part: row.handled for row in self._rows(queries.HANDLED_SERIES, **at)}
        moments = []
        for part in range(max(stored.keys() | handled.keys()) + 1):
            row = stored.get(part)
            p50_ms, p99_ms = row.parts if row is not None and row.parts is not None else (None, None)
            count = row.stored if row is not None else 0
            moments.append(Moment(part * span_ms, count, handled.get(part, 0), p50_ms, p99_ms))
        return Series(span.began, span_ms, tuple(moments))

    def _view(self, name: str, text: str, **arguments: Any) -> None:
        self._spark.sql(text, arguments).createOrReplaceTempView(name)

    def _rows(self, text: str, **arguments: Any) -> list[Any]:
        return self._spark.sql(text, arguments).collect()

    def _row(self, text: str, **arguments: Any) -> Any:
        (row,) = self._rows(text, **arguments)
        return row


def _tries(total: Any, came_back: dict[int, Any], tried: dict[int, Any]) -> tuple[Try, ...]:
    """Return the results of each attempt. The first attempt has the messages of the topic itself."""
    tries = []
    for times in sorted({0} | came_back.keys() | tried.keys()):
        stored = total if times == 0 else came_back.get(times)
        ledger = tried.get(times)
        after_ms = 0.0 if times == 0 else stored.afterMs if stored else None
        none = 0 if tried else None  # Without ledgers this is unknown.
        handled, failed = (ledger.handled, ledger.failed) if ledger else (none, none)
        copies, messages = (stored.stored, stored.messages) if stored else (0, 0)
        tries.append(Try(times, copies, messages, handled, failed, after_ms))
    return tuple(tries)


def span_of(duration_ms: int) -> int:
    """Return the length of the time spans of a series, such that the series has at most MOMENTS_MAX points."""
    for span_ms in SPANS_MS:
        if duration_ms <= span_ms * MOMENTS_MAX:
            return span_ms
    return -(-duration_ms // (MOMENTS_MAX * SPANS_MS[-1])) * SPANS_MS[-1]
