"""`Cluster.clock`: message time.

    cluster.clock.advance(hours=2)
    cluster.clock.advance("1h30m")
    cluster.clock.advance(to=datetime(2027, 1, 1, tzinfo=UTC))

Each method returns a `ClockReport`: the new state of the clock and, after an advance, what was delivered. All methods
raise BrokerAnswer (for example for a time in the past), ClockBusy (another client is moving the clock) and
NetworkError. `advance` also raises NotAtRest, which names the consumers that didn't finish.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from staticfire.client.admin.clock import ClockReport, ClusterClock
from staticfire.cluster.cluster_calls import Face, waiting
from staticfire.cluster.remote_cluster import RemoteCluster, RemoteRunning
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.protocol.durations import DURATION_FORMS, MOMENT_FORMS, ms_of, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clock import ADVANCE_TIMEOUT_MS
from staticfire.runtime.loop_thread import LoopThread

# Errors show at most this many digits of a number.
DIGITS_MAX = 24
# Longer than the deadline of the clock itself, whose error has more details.
TIMEOUT_S = ADVANCE_TIMEOUT_MS / 1_000 + 10

BLOCKS_CONSUMERS = (
    "cluster.clock.advance would block the running event loop, and with it the consumers that it waits for. Use `async "
    "with Cluster(...) as cluster` and `await cluster.clock.advance(...)`, or with this cluster `await "
    "cluster.aio.clock.advance(...)`"
)


class RunningClock:
    """Message time. Runs inside the cluster's event loop."""

    def __init__(self, cluster: RunningCluster | RemoteRunning) -> None:
        self._cluster = cluster

    async def now(self) -> ClockReport:
        """Return the state of message time."""
        return await self._moved(ClusterClock.now)

    async def freeze(self) -> ClockReport:
        """Stop message time at its current value."""
        return await self._moved(ClusterClock.freeze)

    async def run(self) -> ClockReport:
        """Run message time at its normal rate, from its current value."""
        return await self._moved(ClusterClock.run)

    async def scale(self, rate: float) -> ClockReport:
        """Run message time `rate` times faster than real time. Raises: UsageError."""
        if not _is_number(rate):
            raise UsageError(
                f"scale({rate!r}): the rate must be a number, how many times faster than real time, as in scale(60)"
            )
        return await self._moved(lambda clock: clock.scale(rate))

    async def skip(self) -> ClockReport:
        """From now on, jump to the next due time whenever all consumers are at rest."""
        return await self._moved(ClusterClock.skip)

    async def advance(  # house: exactly one form of a time is given, by name
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
        """Move message time forward. Return when consumers have consumed everything that became due.

        Give exactly one of these: `by` (`"1h30m"` or a timedelta); any of days, hours, minutes, seconds and
        milliseconds; or `to`, a moment (a datetime, ISO 8601 text or milliseconds; UTC if it has no time zone).
        `settle`: how long consumers may take after each step; the default is 30 s.
        Raises: NotAtRest, ClockBusy, BrokerAnswer, UsageError (not exactly one of these, or an unreadable value).
        """
        named = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "milliseconds": milliseconds}
        parts = {name: number for name, number in named.items() if number is not None}
        if (by is not None) + (to is not None) + bool(parts) != 1:
            raise UsageError('advance needs exactly one of: hours=2 and the like, "1h30m", a timedelta, or to=')
        by_ms = _parts_ms(parts) if parts else None if by is None else _ms("advance", by)
        to_ms = None if to is None else _moment_ms(to)
        settle_ms_max = None if settle is None else _ms("settle", settle)
        return await self._moved(lambda clock: clock.advance(by_ms, to_ms, settle_ms_max))

    async def _moved(self, move: Callable[[ClusterClock], Awaitable[ClockReport]]) -> ClockReport:
        async with self._cluster.pool() as pool:
            return await move(ClusterClock(pool, self._cluster.cluster.namesrv))


class BlockingClock(Face[RunningClock]):
    """The message time of one cluster. Any thread but the cluster's own may call the methods."""

    def __init__(self, cluster: Face[RunningCluster] | RemoteCluster) -> None:
        self._cluster = cluster

    now = waiting(RunningClock.now)
    freeze = waiting(RunningClock.freeze)
    run = waiting(RunningClock.run)
    scale = waiting(RunningClock.scale)
    skip = waiting(RunningClock.skip)
    advance = waiting(RunningClock.advance, TIMEOUT_S, BLOCKS_CONSUMERS)

    def _thread_and_object(self) -> tuple[LoopThread, RunningClock]:
        thread, running = self._cluster._thread_and_object()
        return thread, RunningClock(running)


def _ms(name: str, duration: object) -> int:
    """Return a duration in milliseconds. Raises: UsageError."""
    if isinstance(duration, str):
        return parse_duration(duration)
    if isinstance(duration, timedelta):
        return round(duration / timedelta(milliseconds=1))
    if _is_number(duration):
        way_out = f'{name}="{duration}s" or {name}=timedelta(seconds={duration})'
        if name == "advance":
            way_out = f'advance(seconds={duration}), advance("{duration}s"), or the same with hours, minutes ...'
        raise UsageError(f"{name}: {duration} has no unit; write {way_out}")
    raise UsageError(f"{name}: {duration!r} is not a duration; write a timedelta, or text like {DURATION_FORMS}")


def _parts_ms(parts: dict[str, float]) -> int:
    """Return the sum of hours=2 and the like in milliseconds. Raises: UsageError."""
    wrong = [f"{name}={number!r}" for name, number in parts.items() if not _is_number(number)]
    if wrong:
        raise UsageError(f"advance: {wrong[0]} is not a number")
    try:
        return round(timedelta(**parts) / timedelta(milliseconds=1))
    except (OverflowError, ValueError) as error:  # Too many days, or not a number (NaN).
        given = ", ".join(f"{name}={str(number)[:DIGITS_MAX]}" for name, number in parts.items())
        raise UsageError(f"advance({given}): {error}") from None


def _moment_ms(moment: object) -> int:
    """Return a point in time in milliseconds since 1970. Raises: UsageError."""
    if isinstance(moment, datetime):
        return ms_of(moment)
    if isinstance(moment, str):
        return parse_moment(moment)
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    raise UsageError(f"to={moment!r} is not a time; write a datetime, or {MOMENT_FORMS}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
