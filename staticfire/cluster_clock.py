"""`Cluster.clock`: message time from blocking code.

    cluster.clock.advance(hours=2)
    cluster.clock.advance("1h30m")
    cluster.clock.advance(to=datetime(2027, 1, 1, tzinfo=UTC))

Each method returns a `ClockReport`: what the clock shows then, and what an advance delivered. All raise BrokerAnswer
(a target in the past), ClockBusy (somebody else moves the clock) and NetworkError; `advance` also NotAtRest, with
whoever keeps the cluster from resting.
"""

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from staticfire.client.admin.clock import ClockReport, ClusterClock
from staticfire.protocol.durations import ms_of, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clock import ADVANCE_TIMEOUT_MS

TIMEOUT_S = ADVANCE_TIMEOUT_MS / 1_000 + 10
# The clock's own deadline comes first: it says more.

Move = Callable[[ClusterClock], Coroutine[Any, Any, ClockReport]]


class BlockingClock:
    """The message time of one cluster. All methods may be called from any thread but the cluster's own."""

    def __init__(self, call: Callable[[Move], ClockReport]) -> None:
        """`call` makes a move on the cluster's own loop, and waits for it."""
        self._call = call

    def now(self) -> ClockReport:
        """Return what it shows."""
        return self._call(ClusterClock.now)

    def freeze(self) -> ClockReport:
        """Let message time stand."""
        return self._call(ClusterClock.freeze)

    def run(self) -> ClockReport:
        """Let message time run at its usual pace, from where it is."""
        return self._call(ClusterClock.run)

    def scale(self, rate: float) -> ClockReport:
        """Let message time run that many times faster."""
        return self._call(lambda clock: clock.scale(rate))

    def skip(self) -> ClockReport:
        """Skip to whatever falls due next, again and again, whenever consumers are at rest."""
        return self._call(ClusterClock.skip)

    def advance(
        self,
        by: timedelta | str | None = None,
        *,
        to: datetime | str | int | None = None,
        settle: timedelta | str | None = None,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
        milliseconds: float | None = None,
    ) -> ClockReport:
        """Jump ahead; return when everything that fell due on the way is consumed.

        By `by` (`"1h30m"` or a timedelta) or by days to milliseconds, or `to` a moment (a datetime, ISO 8601 or
        milliseconds; UTC without a time zone). `settle`: how long consumers may take after each step, 30 s if not said.
        Raises: NotAtRest, ClockBusy, BrokerAnswer, UsageError (not exactly one of these, or none that can be read).
        """
        named = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "milliseconds": milliseconds}
        parts = {name: number for name, number in named.items() if number is not None}
        if (by is not None) + (to is not None) + bool(parts) != 1:
            raise UsageError('advance wants one of: hours=2 and the like, "1h30m", a timedelta, or to=')
        if parts:
            by = timedelta(**parts)
        by_ms = None if by is None else _ms(by)
        to_ms = None if to is None else _moment_ms(to)
        settle_ms_max = None if settle is None else _ms(settle)
        return self._call(lambda clock: clock.advance(by_ms, to_ms, settle_ms_max))


def _ms(duration: timedelta | str) -> int:
    return parse_duration(duration) if isinstance(duration, str) else duration // timedelta(milliseconds=1)


def _moment_ms(moment: datetime | str | int) -> int:
    if isinstance(moment, datetime):
        return ms_of(moment)
    return parse_moment(moment) if isinstance(moment, str) else moment
