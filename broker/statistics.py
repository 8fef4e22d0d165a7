"""What a broker counts: messages and bytes in and out, by topic and group. RocketMQ: BrokerStatsManager, StatsItem.

Counters are bumped once per burst and once per pull, and sampled every 10 s (runtime/sampled_counter.py). Pure:
liveness time is passed in. Counters of what nobody uses any more stay until the broker stops.
"""

from collections.abc import Mapping

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.queue_files import ENTRY
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.sampled_counter import SampledCounter

COUNTERS_MAX = 200_000

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"


_NEVER = SampledCounter()


class Statistics:
    """All counters of one broker, by name and key."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], SampledCounter] = {}
        self._puts: dict[str, tuple[SampledCounter, SampledCounter]] = {}
        self._gets: dict[tuple[str, str], tuple[SampledCounter, SampledCounter]] = {}
        self.put, self.put_bytes = SampledCounter(), SampledCounter()
        self.got, self.got_bytes = SampledCounter(), SampledCounter()
        self._turn = 0
        self._log_end = -1

    # -- counting ------------------------------------------------------------------------------------------------

    def stored(self, arrivals: Mapping[Queue, int], log_end: int) -> None:
        """Count a burst: the queues that got messages, from which offset on, and where the log ends now."""
        burst_bytes, self._log_end = log_end - self._log_end, log_end
        only_topic = len(arrivals) == 1 or len({queue.topic for queue in arrivals}) == 1
        total = 0
        for queue, first_offset in arrivals.items():
            count = queue.max_offset - first_offset
            total += count
            self._put_of(queue.topic, count, 0 if only_topic else _bytes_from(queue, first_offset))
        if only_topic:
            self._put_of(next(iter(arrivals)).topic, 0, burst_bytes)
        _bump(self.put, total, total)
        _bump(self.put_bytes, burst_bytes, total)

    def started(self, log_end: int) -> None:
        """Count from there on."""
        self._log_end = log_end

    def _put_of(self, topic: str, count: int, size: int) -> None:
        counters = self._puts.get(topic)
        if counters is None:
            counters = self._puts[topic] = self._counter(TOPIC_PUT_NUMS, topic), self._counter(TOPIC_PUT_SIZE, topic)
        _bump(counters[0], count, count)
        _bump(counters[1], size, count)

    def delivered(self, group: str, topic: str, count: int, size: int) -> None:
        """Count what a pull was given."""
        counters = self._gets.get((group, topic))
        if counters is None:
            key = f"{topic}@{group}"
            counters = self._gets[group, topic] = self._counter(GROUP_GET_NUMS, key), self._counter(GROUP_GET_SIZE, key)
        _bump(counters[0], count, 1)
        _bump(counters[1], size, 1)
        _bump(self.got, count, 1)
        _bump(self.got_bytes, size, 1)

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a group gave back."""
        _bump(self._counter(SNDBCK_PUT_NUMS, f"{topic}@{group}"), 1, 1)

    def _counter(self, name: str, key: str) -> SampledCounter:
        counter = self._counters.get((name, key))
        if counter is None:
            counter = SampledCounter()
            if len(self._counters) < COUNTERS_MAX:
                self._counters[name, key] = counter
        return counter

    def sample(self, uptime_ms: UptimeMs) -> None:
        """Sample all counters; call it every SAMPLE_MS."""
        for counter in (self.put, self.put_bytes, self.got, self.got_bytes, *self._counters.values()):
            counter.sample(uptime_ms, self._turn)
        self._turn += 1

    # -- asking ----------------------------------------------------------------------------------------------------

    def find(self, name: str, key: str, cluster: str) -> SampledCounter | None:
        """Return a counter; those of the whole broker have the cluster's name as the key."""
        if key == cluster and name in (BROKER_PUT_NUMS, BROKER_GET_NUMS):
            return self.put if name == BROKER_PUT_NUMS else self.got
        return self._counters.get((name, key))

    def put_tps(self, topic: str) -> float:
        """Return how many messages per second a topic got in the last minute."""
        return self._counters.get((TOPIC_PUT_NUMS, topic), _NEVER).tps

    def get_tps(self, group: str, topic: str) -> float:
        """Return how many messages per second a group was given of a topic in the last minute."""
        return self._counters.get((GROUP_GET_NUMS, f"{topic}@{group}"), _NEVER).tps


def _bump(counter: SampledCounter, value: int, times: int) -> None:
    counter.value += value
    counter.times += times


def _bytes_from(queue: Queue, offset: int) -> int:
    """Return how many bytes the newest messages of a queue have."""
    at, size = offset, 0
    while at < queue.max_offset and (entries := queue.entry_bytes(at, queue.max_offset - at)):
        size += sum(entry[1] for entry in ENTRY.iter_unpack(entries))
        at += len(entries) // ENTRY.size
    return size
