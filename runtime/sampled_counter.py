"""Numbers that grow, and how fast they grew in the last minute, hour and day. Pure. RocketMQ: StatsItem, StatsSnapshot.

Every 10 s their values are sampled, every 10 minutes for the hour and every hour for the day; sums and rates are
differences of samples, so they lag by up to a sample. Liveness time is passed in.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from staticfire.protocol.requests.statistics import StatsSpan, StatsSpans
from staticfire.protocol.times import UptimeMs

SAMPLE_MS = 10_000
_HOUR_SAMPLES, _DAY_SAMPLES = 60, 360
# Every so many samples of a minute there is one of an hour, of a day.


class Sample(msgspec.Struct, gc=False, frozen=True):
    """A counter at a moment."""

    uptime_ms: UptimeMs
    value: int
    times: int


class SampledCounter:
    """One number that grows, `times` by how many events, and its samples."""

    __slots__ = ("_day", "_hour", "_minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._minute: deque[Sample] = deque(maxlen=7)
        self._hour: deque[Sample] = deque(maxlen=7)
        self._day: deque[Sample] = deque(maxlen=25)

    def sample(self, uptime_ms: UptimeMs, turn: int) -> None:
        """Take a sample; the first one of a list is preceded by a zero, one period earlier."""
        now = Sample(uptime_ms, self.value, self.times)
        rows = ((self._minute, 1), (self._hour, _HOUR_SAMPLES), (self._day, _DAY_SAMPLES))
        for samples, every in rows:
            if not samples:
                samples.append(Sample(UptimeMs(uptime_ms - every * SAMPLE_MS), 0, 0))
                samples.append(now)
            elif turn % every == 0:
                samples.append(now)

    @property
    def minute(self) -> StatsSpan:
        """What was counted in the last minute."""
        return _span(self._minute)

    @property
    def hour(self) -> StatsSpan:
        """What was counted in the last hour."""
        return _span(self._hour)

    def spans(self) -> StatsSpans:
        """Return what was counted in the last minute, hour and day."""
        return StatsSpans(self.minute, self.hour, _span(self._day))

    @property
    def tps(self) -> float:
        """How much per second in the last minute."""
        return self.minute.tps

    def recent_tps(self) -> tuple[float, float, float]:
        """Return how much per second in the last 10 s, minute and hour."""
        return _span(deque(list(self._minute)[-2:])).tps, self.tps, self.hour.tps

    def recent_times(self) -> tuple[float, float, float]:
        """Return how many events per second there were in the last 10 s, minute and hour."""
        last, minute, hour = (_times_ps(samples) for samples in (list(self._minute)[-2:], self._minute, self._hour))
        return last, minute, hour


def _times_ps(samples: Sequence[Sample]) -> float:
    if not samples or samples[-1].uptime_ms == samples[0].uptime_ms:
        return 0.0
    return (samples[-1].times - samples[0].times) * 1000 / (samples[-1].uptime_ms - samples[0].uptime_ms)


def _span(samples: deque[Sample]) -> StatsSpan:
    if not samples:
        return StatsSpan()
    first, last = samples[0], samples[-1]
    total, times, took_ms = last.value - first.value, last.times - first.times, last.uptime_ms - first.uptime_ms
    return StatsSpan(total, total * 1000 / took_ms if took_ms > 0 else 0.0, total / times if times > 0 else 0.0)
