"""Counters, with their growth in the last minute, hour and day. Pure. RocketMQ: StatsItem, StatsSnapshot.

The values are sampled every 10 s for the minute, every 10 minutes for the hour, and every hour for the day. Sums and
rates are differences between samples, so they lag by up to one sample. Uptime is passed in.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from staticfire.protocol.requests.statistics import StatsSpan, StatsSpans
from staticfire.protocol.times import UptimeMs

SAMPLE_MS = 10_000
# The number of minute samples per sample of the hour and per sample of the day.
_HOUR_SAMPLES, _DAY_SAMPLES = 60, 360


class Sample(msgspec.Struct, gc=False, frozen=True):
    """The value of a counter at one time."""

    uptime_ms: UptimeMs
    value: int
    times: int


class SampledCounter:
    """One growing number with its samples. `times` is the number of events that it counts."""

    __slots__ = ("_day", "_hour", "_minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._minute: deque[Sample] = deque(maxlen=7)
        self._hour: deque[Sample] = deque(maxlen=7)
        self._day: deque[Sample] = deque(maxlen=25)

    def sample(self, uptime_ms: UptimeMs, turn: int) -> None:
        """Take a sample. Before the first sample of a list, a zero is added, one period earlier."""
        now = Sample(uptime_ms, self.value, self.times)
        if turn % _HOUR_SAMPLES and self._minute:
            self._minute.append(now)  # Nearly always: the other lists get one sample in sixty at most.
            return
        rows = ((self._minute, 1), (self._hour, _HOUR_SAMPLES), (self._day, _DAY_SAMPLES))
        for samples, every in rows:
            if not samples:
                samples.append(Sample(UptimeMs(uptime_ms - every * SAMPLE_MS), 0, 0))
                samples.append(now)
            elif turn % every == 0:
                samples.append(now)

    @property
    def minute(self) -> StatsSpan:
        """The growth in the last minute."""
        return _span(self._minute)

    @property
    def hour(self) -> StatsSpan:
        """The growth in the last hour."""
        return _span(self._hour)

    def spans(self) -> StatsSpans:
        """Return the growth in the last minute, hour and day."""
        return StatsSpans(self.minute, self.hour, _span(self._day))

    @property
    def tps(self) -> float:
        """The growth per second in the last minute."""
        return self.minute.tps

    def recent_tps(self) -> tuple[float, float, float]:
        """Return the growth per second in the last 10 s, minute and hour."""
        return _span(deque(list(self._minute)[-2:])).tps, self.tps, self.hour.tps

    def recent_times(self) -> tuple[float, float, float]:
        """Return the number of events per second in the last 10 s, minute and hour."""
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
