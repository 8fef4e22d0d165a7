"""The durations of puts, minute by minute. RocketMQ: the distribution and percentiles of StoreStatsService. Pure.

Only puts of at least a millisecond are counted by duration, so that the usual put costs nothing. The number of puts of
0 ms is the rest of the minute's total.
"""

from collections import Counter

BUCKETS = (
    (1, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1_000, "500ms~1s"),
    (2_000, "1~2s"),
    (3_000, "2~3s"),
    (4_000, "3~4s"),
    (5_000, "4~5s"),
    (10_000, "5~10s"),
)
"""RocketMQ's buckets: the upper limit of the duration, and the name, which RocketMQ's exporter parses."""
LAST_BUCKET = "10s~"
SAMPLES_A_MINUTE = 6
# Longer puts count as this long, which limits the number of different durations.
TOOK_MS_MAX = 60_000


class PutTimes:
    """The durations of the current minute's puts, and of the last complete minute's."""

    def __init__(self) -> None:
        self.longest_ms = 0
        """The longest put since the broker started."""
        self._slow: Counter[int] = Counter()
        self._last: Counter[int] | None = None
        self._total_before = 0
        self._samples = 0

    def took(self, took_ms: int, count: int) -> None:
        """Count messages with this duration; `took_ms` is at least 1."""
        self.longest_ms = max(self.longest_ms, took_ms)
        self._slow[min(took_ms, TOOK_MS_MAX)] += count

    def sample(self, total: int) -> None:
        """End the minute with every sixth sample. `total` is the number of messages put since the broker started."""
        self._samples += 1
        if self._samples % SAMPLES_A_MINUTE:
            return
        self._slow[0] = max(0, total - self._total_before - self._slow.total())
        self._last, self._slow, self._total_before = self._slow, Counter(), total

    def distribution(self) -> str:
        """Return the number of puts per bucket in the last complete minute, in RocketMQ's format."""
        if self._last is None:
            return "null"
        counts = {words: 0 for _, words in BUCKETS} | {LAST_BUCKET: 0}
        for took_ms, count in self._last.items():
            counts[next((words for below_ms, words in BUCKETS if took_ms < below_ms), LAST_BUCKET)] += count
        return "".join(f"[{words}]:{count} " for words, count in counts.items())

    def percentile(self, share: float) -> float:
        """Return the duration in ms that this share of the last complete minute's puts did not exceed."""
        last = self._last or Counter()
        left = last.total() * share
        for took_ms in sorted(last):
            left -= last[took_ms]
            if left <= 0:
                return float(took_ms)
        return 0.0
