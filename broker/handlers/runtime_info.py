"""The runtime information of a broker, as names and texts. RocketMQ: prepareRuntimeInfo, StoreStatsService.

Tools parse these texts: `putTps` contains three rates, of the last 10 s, the last minute and the last hour.
"""

from collections.abc import Iterable, Iterator

from staticfire.broker.delay.service import DelayService
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import Statistics
from staticfire.protocol.codes import VERSION
from staticfire.protocol.delay_levels import queue_of_level
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.requests.statistics import STORE_REFUSAL

VERSION_WORDS = "V5_3_3"
_POOLS = ("send", "pull", "litePull", "query", "ack")


class RuntimeInfo:
    """Collects the runtime information."""

    def __init__(self, state: BrokerState, statistics: Statistics, delays: DelayService) -> None:
        self._state = state
        self._statistics = statistics
        self._delays = delays
        self._started_ms = 0
        self._started_uptime_ms = 0

    def started(self) -> None:
        """Note the time of the start."""
        self._started_ms = self._state.clock.message_ms()
        self._started_uptime_ms = self._state.machine.clock.uptime_ms()

    def table(self) -> dict[str, str]:
        """Return all texts by name."""
        rows = (*self._broker_rows(), *self._store_rows(), *self._rate_rows(), *self._pool_rows(), *self._delay_rows())
        return {name: str(value) for name, value in sorted(rows)}

    def _broker_rows(self) -> Iterator[tuple[str, object]]:
        state = self._state
        yield "brokerVersionDesc", VERSION_WORDS
        yield "brokerVersion", VERSION
        yield "brokerActive", "true" if state.settings.broker_id == 0 else "false"
        yield "bootTimestamp", self._started_ms
        yield "startAcceptSendRequestTimeStamp", 0
        yield "runtime", _span_in_words(state.machine.clock.uptime_ms() - self._started_uptime_ms)

    def _store_rows(self) -> Iterator[tuple[str, object]]:
        state = self._state
        store, use = state.store, state.disk_use
        ratio = use.used_bytes / use.total_bytes if use.total_bytes else 0.0
        folder = f"{state.settings.store_path_root_dir}/commitlog"
        yield "commitLogMinOffset", store.min_position
        yield "commitLogMaxOffset", store.max_position
        yield "earliestMessageTimeStamp", -1 if store.oldest_stored_ms is None else store.oldest_stored_ms
        yield "commitLogDiskRatio", ratio
        yield f"commitLogDiskRatio_{folder}", ratio
        yield "consumeQueueDiskRatio", ratio
        total, free = _gib(use.total_bytes), _gib(use.total_bytes - use.used_bytes)
        yield "commitLogDirCapacity", f"Total : {total}, Free : {free}."
        yield "remainHowManyDataToFlush", f"{max(0, store.max_position - store.synced_position)} B"
        yield "remainHowManyDataToCommit", "0 B"
        yield "damagedMessages", store.findings.damaged_records
        yield "scrubbedBytes", store.findings.scrubbed_bytes
        yield "scrubRounds", store.findings.scrub_rounds
        yield "mendedQueueEntries", store.findings.mended_entries
        yield "rebuiltQueues", store.findings.rebuilt_queues
        if store.refusal is not None:
            yield STORE_REFUSAL, store.refusal
        for name in ("dispatchBehindBytes", "pageCacheLockTimeMills", "dispatchMaxBuffer", "putMessageFailedTimes"):
            yield name, 0
        yield "remainTransientStoreBufferNumbs", 2**31 - 1
        for name in ("timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps"):
            yield name, 0 if not name.endswith("Tps") else 0.0

    def _rate_rows(self) -> Iterator[tuple[str, object]]:
        counts = self._statistics
        counts.count_stored()
        found, missed = counts.got_bytes.recent_times(), counts.missed.recent_times()
        yield "putTps", _rates(counts.put.recent_tps())
        yield "getFoundTps", _rates(found)
        yield "getMissTps", _rates(missed)
        yield "getTotalTps", _rates(map(sum, zip(found, missed, strict=True)))
        yield "getTransferredTps", _rates(counts.got.recent_tps())
        yield "putMessageTimesTotal", counts.put.value
        yield "putMessageSizeTotal", counts.put_bytes.value
        yield "putMessageAverageSize", counts.put_bytes.value / max(1, counts.put.value)
        times = counts.put_times
        yield "putMessageEntireTimeMax", times.longest_ms
        yield "getMessageEntireTimeMax", counts.slowest_pull_ms
        yield "putMessageDistributeTime", times.distribution()
        yield "putLatency99", f"{times.percentile(0.99):.2f}"
        yield "putLatency999", f"{times.percentile(0.999):.2f}"
        for what, counter in (("Put", counts.put), ("Get", counts.got)):
            # Days are not distinguished: everything counted since the start of the broker counts as today's.
            yield f"msg{what}TotalYesterdayMorning", 0
            yield f"msg{what}TotalTodayMorning", 0
            yield f"msg{what}TotalTodayNow", counter.value

    def _pool_rows(self) -> Iterator[tuple[str, object]]:
        for pool in _POOLS:
            yield f"{pool}ThreadPoolQueueSize", 0
            yield f"{pool}ThreadPoolQueueCapacity", 100_000 if pool != "send" else 10_000
            yield f"{pool}ThreadPoolQueueHeadWaitTimeMills", 0
        yield "EndTransactionQueueSize", 0
        yield "EndTransactionThreadPoolQueueCapacity", 100_000

    def _delay_rows(self) -> Iterator[tuple[str, object]]:
        for level in range(1, self._delays.queue.level_max + 1):
            queue = self._state.store.queue(SCHEDULE_TOPIC, queue_of_level(level))
            yield f"scheduleMessageOffset_{level}", f"{self._delays.queue.offset(level)},{queue.max_offset}"


def _rates(rates: Iterable[float]) -> str:
    return " ".join(str(rate) for rate in rates)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _span_in_words(span_ms: int) -> str:
    seconds = span_ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
