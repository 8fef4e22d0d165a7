"""The counters of a broker: messages and bytes in and out, by topic and group. RocketMQ: BrokerStatsManager.

Deliveries are counted once per pull. Every 10 s all counters are sampled (runtime/sampled_counter.py), and stored
messages are counted. Pure: uptime is passed in. Counters that are no longer used are kept until the broker stops.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from staticfire.broker.put_times import PutTimes
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.names import SCHEDULE_TOPIC, is_system_topic
from staticfire.protocol.requests.statistics import StatsSpan, StatsSpans
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.sampled_counter import SampledCounter

COUNTERS_MAX = 200_000

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
QUEUE_PUT_NUMS, QUEUE_PUT_SIZE = "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE"
SNDBCK_PUT_NUMS, SNDBCK2DLQ_TIMES = "SNDBCK_PUT_NUMS", "SNDBCK2DLQ_TIMES"
TOPIC_PUT_LATENCY, GROUP_GET_LATENCY = "TOPIC_PUT_LATENCY", "GROUP_GET_LATENCY"
CHANNEL_ACTIVITY = "CHANNEL_ACTIVITY"
# The keys of CHANNEL_ACTIVITY.
CONNECT, CLOSE, IDLE = "CONNECT", "CLOSE", "IDLE"
# The durations of heartbeats: they never take a millisecond.
REGISTER_TIMES = ("CONSUMER_REGISTER_TIME", "PRODUCER_REGISTER_TIME")


class TopicCounters(NamedTuple):
    """Messages and bytes put into a topic, or delivered from it to one group."""

    messages: SampledCounter
    size: SampledCounter
    is_system: bool


class Statistics:
    """All counters of one broker, by name and key."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], SampledCounter] = {}
        self._puts: dict[str, TopicCounters] = {}
        self._gets: dict[tuple[str, str], TopicCounters] = {}
        self._slow_puts: dict[Queue, tuple[SampledCounter, int]] = {}
        """Queues with a put that took at least a millisecond: the counter of durations, and the queue's end before."""
        self.put_times = PutTimes()
        self.slowest_pull_ms = 0
        """The duration of the slowest pull; 0: none took a millisecond."""
        self.put, self.put_bytes = SampledCounter(), SampledCounter()
        self.got, self.got_bytes, self.missed = SampledCounter(), SampledCounter(), SampledCounter()
        """`times` of `got_bytes` counts reads that found messages, `times` of `missed` those that found none."""
        self._system_put, self._system_got = SampledCounter(), SampledCounter()
        self._turn = 0
        self._log_end = self._counted_end = -1
        self._fresh: dict[Queue, int] = {}
        """Queues that got messages since the last count, each with the first new offset."""

    # -- counting ------------------------------------------------------------------------------------------------

    def stored(self, arrivals: Mapping[Queue, int], log_end: int, took_ms: int = 0) -> None:
        """Count a burst: the queues that got messages, each with the first new offset, and the new end of the log.

        This is hot if a burst has many queues, so the messages of each queue are counted later, with the next sample.
        """
        self._log_end = log_end
        know = self._fresh.setdefault
        for queue, first_offset in arrivals.items():
            know(queue, first_offset)
        if took_ms:
            self._put_took(arrivals, took_ms)

    def count_stored(self) -> None:
        """Count what the last bursts have stored. `put`, `put_bytes` and the counters of topics lag until then."""
        total = 0
        for queue, first_offset in self._fresh.items():
            count, size = queue.max_offset - first_offset, queue.take_new_bytes()
            total += count
            if self._put_of(queue.topic, count, size).is_system:
                self._system_stored(queue, count, size)
        self._fresh.clear()
        self.put.value += total
        _bump(self.put_bytes, self._log_end - self._counted_end, total)
        self._counted_end = self._log_end

    def _system_stored(self, queue: Queue, count: int, size: int) -> None:
        self._system_put.value += count
        if queue.topic == SCHEDULE_TOPIC:
            key = f"{queue.topic}@{queue.queue_id}"
            _bump(self._counter(QUEUE_PUT_NUMS, key), count, count)
            _bump(self._counter(QUEUE_PUT_SIZE, key), size, count)

    def _put_took(self, arrivals: Mapping[Queue, int], took_ms: int) -> None:
        """Note how long the messages of a burst took to be stored; it is the same for all of them."""
        self.put_times.took(took_ms, sum(queue.max_offset - first for queue, first in arrivals.items()))
        for queue, first_offset in arrivals.items():
            if queue not in self._slow_puts:
                counter = self._counter(TOPIC_PUT_LATENCY, f"{queue.queue_id}@{queue.topic}")
                self._slow_puts[queue] = counter, first_offset
            self._slow_puts[queue][0].value += took_ms * (queue.max_offset - first_offset)

    def started(self, log_end: int) -> None:
        """Start counting from there on."""
        self.count_stored()
        self._log_end = self._counted_end = log_end
        self._slow_puts.clear()

    def _put_of(self, topic: str, count: int, size: int) -> TopicCounters:
        counters = self._puts.get(topic)
        if counters is None:
            messages, sizes = self._counter(TOPIC_PUT_NUMS, topic), self._counter(TOPIC_PUT_SIZE, topic)
            counters = self._puts[topic] = TopicCounters(messages, sizes, is_system_topic(topic))
        _bump(counters.messages, count, count)
        _bump(counters.size, size, count)
        return counters

    def delivered(self, group: str, topic: str, count: int, size: int) -> None:
        """Count what was delivered to a pull or a pop."""
        counters = self._gets.get((group, topic))
        if counters is None:
            key = f"{topic}@{group}"
            messages, sizes = self._counter(GROUP_GET_NUMS, key), self._counter(GROUP_GET_SIZE, key)
            counters = self._gets[group, topic] = TopicCounters(messages, sizes, is_system_topic(topic))
        _bump(counters.messages, count, 1)
        _bump(counters.size, size, 1)
        self.got.value += count
        _bump(self.got_bytes, size, 1)
        if counters.is_system:
            self._system_got.value += count

    def pull_took(self, group: str, topic: str, queue_id: int, took_ms: int) -> None:
        """Note how long the broker worked on a pull.

        Per queue, starting with the first pull that took a millisecond.
        """
        key = f"{queue_id}@{topic}@{group}"
        if took_ms or (GROUP_GET_LATENCY, key) in self._counters:
            self.slowest_pull_ms = max(self.slowest_pull_ms, took_ms)
            _bump(self._counter(GROUP_GET_LATENCY, key), took_ms, 1)

    def sent_back(self, group: str, topic: str, is_dead: bool = False) -> None:
        """Count a message that a group sent back; `is_dead`: to the dead letters."""
        _bump(self._counter(SNDBCK_PUT_NUMS, f"{topic}@{group}"), 1, 1)
        if is_dead:
            _bump(self._counter(SNDBCK2DLQ_TIMES, f"null@{topic}@{group}@SEND_BACK_TO_DLQ"), 1, 1)

    def channel(self, kind: str, _: object = None, times: int = 1) -> None:
        """Count connections that were opened, closed, or closed because they were idle."""
        if times:
            _bump(self._counter(CHANNEL_ACTIVITY, kind), times, times)

    def _counter(self, name: str, key: str) -> SampledCounter:
        counter = self._counters.get((name, key))
        if counter is None:
            counter = SampledCounter()
            if len(self._counters) < COUNTERS_MAX:
                self._counters[name, key] = counter
        return counter

    def sample(self, uptime_ms: UptimeMs) -> None:
        """Sample all counters. Call it every SAMPLE_MS."""
        self.count_stored()
        for queue, (counter, before) in self._slow_puts.items():
            counter.times = max(queue.max_offset - before, counter.times)
        self.put_times.sample(self.put.value)
        broker = (self.put, self.put_bytes, self.got, self.got_bytes, self._system_put, self._system_got)
        for counter in (*broker, self.missed, *self._counters.values()):
            counter.sample(uptime_ms, self._turn)
        self._turn += 1

    # -- queries -------------------------------------------------------------------------------------------------

    def spans(self, name: str, key: str, cluster: str) -> StatsSpans | None:
        """Return the values of a counter. Those of the whole broker have the cluster's name as the key."""
        self.count_stored()
        counter = self._counters.get((name, key))
        if counter is not None:
            return counter.spans()
        if key == cluster:
            return self._of_broker(name)
        return StatsSpans() if self._takes_no_time(name, key) else None

    def _of_broker(self, name: str) -> StatsSpans | None:
        put, got = self.put.spans(), self.got.spans()
        found = {
            "BROKER_PUT_NUMS": put,
            "BROKER_GET_NUMS": got,
            "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": _without(put, self._system_put.spans()),
            "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": _without(got, self._system_got.spans()),
            **dict.fromkeys(REGISTER_TIMES, StatsSpans()),
        }
        return found.get(name)

    def _takes_no_time(self, name: str, key: str) -> bool:
        """Tell whether a duration is requested of something that has happened, but never took a millisecond."""
        queue_id, _, rest = key.partition("@")
        if not queue_id.isdecimal():
            return False
        counted = {TOPIC_PUT_LATENCY: TOPIC_PUT_NUMS, GROUP_GET_LATENCY: GROUP_GET_NUMS}.get(name)
        return counted is not None and (counted, rest) in self._counters

    def puts(self) -> Iterator[tuple[str, int, int]]:
        """Yield topic, messages and bytes of what was stored since the broker started."""
        self.count_stored()
        for topic, counters in self._puts.items():
            yield topic, counters.messages.value, counters.size.value

    def gets(self) -> Iterator[tuple[str, str, int, int]]:
        """Yield group, topic, messages and bytes of what was delivered to groups since the broker started."""
        for (group, topic), counters in self._gets.items():
            yield group, topic, counters.messages.value, counters.size.value

    def put_tps(self, topic: str) -> float:
        """Return the messages per second put into a topic in the last minute."""
        return self._counters.get((TOPIC_PUT_NUMS, topic), _NEVER).tps

    def get_tps(self, group: str, topic: str) -> float:
        """Return the messages per second delivered from a topic to a group in the last minute."""
        return self._counters.get((GROUP_GET_NUMS, f"{topic}@{group}"), _NEVER).tps


_NEVER = SampledCounter()


def _without(all_of_it: StatsSpans, part: StatsSpans) -> StatsSpans:
    def less(one: StatsSpan, other: StatsSpan) -> StatsSpan:
        return StatsSpan(one.sum - other.sum, one.tps - other.tps, one.avgpt)

    return StatsSpans(
        less(all_of_it.stats_minute, part.stats_minute),
        less(all_of_it.stats_hour, part.stats_hour),
        less(all_of_it.stats_day, part.stats_day),
    )


def _bump(counter: SampledCounter, value: int, times: int) -> None:
    counter.value += value
    counter.times += times
