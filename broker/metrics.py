"""Metrics of a broker for Prometheus, read from its tables on request. RocketMQ: BrokerMetricsManager.

Nothing is counted only for this, so a broker that isn't scraped has no extra work. Names and labels are those of
RocketMQ 5.3.3's exporter, including units (`rocketmq_storage_size_bytes`).

Different from RocketMQ
- `message_type` is the topic's (its attribute, or `delay` for waiting messages), not each message's.
- Retries of groups that pull have rows, too: is_retry="true", and the topic is the group's retry topic. Retries of
  groups that pop have the popped topic, as in RocketMQ, once there were any.
- Every row about messages delivered to consumers has is_retry; in RocketMQ only those of pops have it.
- A message that was popped in order counts once in the lag; in RocketMQ it counts twice.
- Waiting messages, half messages and dead letters have no label for the topic: they aren't counted by topic.

Not implemented
- Histograms (message size, latencies): each message would have to be counted one more time.
- Things that don't exist here: thread pools, buffers of POP, lags of RocketMQ's timer wheel.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from staticfire.broker.groups.consumers import ConsumerGroup
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.state import BrokerState
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.topics import TopicTable
from staticfire.broker.totals import topics_by_group
from staticfire.broker.waiting import WaitingMessages
from staticfire.protocol.codes import LanguageCode
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import (
    SCHEDULE_TOPIC,
    WHEEL_TIMER_TOPIC,
    group_of_topic,
    is_dead_letter_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    reply_topic,
    requested_topic,
    retry_topic,
)
from staticfire.protocol.requests.statistics import MetricRow
from staticfire.protocol.requests.topics import TopicConfig

REMOTING = "remoting"
_LANGUAGES = {int(language): language.name.lower() for language in LanguageCode}
# From this version on RocketMQ's versions are numbered in pairs, a snapshot and its release: 479 is 5.3.3.
_FIRST_PAIR = 64
_PAIRS_BEFORE = 294
_MODES = {"CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_DISK = {"storage_type": "local", "storage_medium": "disk"}

Labels = dict[str, str]


class BrokerMetrics:
    """Reads the tables of one broker."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        statistics: Statistics,
        pops: LazyPopService,
        waiting: WaitingMessages,
    ) -> None:
        self._state = state
        self._pops = pops
        self._topics = topics
        self._groups = groups
        self._statistics = statistics
        self._waiting = waiting
        cluster, name = state.cluster, state.settings.broker_name
        self._servers_own = (cluster, name, reply_topic(cluster))
        self._labels = {"cluster": cluster, "node_type": "broker", "node_id": name}

    def rows(self) -> Iterator[MetricRow]:
        """Yield every time series."""
        for found in (self._messages(), self._broker(), self._storage(), self._clients(), self._progress()):
            for name, value, labels in found:
                yield MetricRow(f"rocketmq_{name}", float(value), {**self._labels, **labels})

    # -- messages ------------------------------------------------------------------------------------------------

    def _messages(self) -> Iterator[tuple[str, float, Labels]]:
        statistics = self._statistics
        for topic, messages, size in list(statistics.puts()):
            labels = {"topic": topic, "message_type": self._type_of(topic), "is_system": self._is_system(topic)}
            yield "messages_in_total", messages, labels
            yield "throughput_in_total", size, labels
            if is_dead_letter_topic(topic):
                group = group_of_topic(topic) or ""
                yield "send_to_dlq_messages_total", messages, {"consumer_group": group, "is_system": _word(False)}
        given: dict[tuple[str, str, bool], tuple[int, int]] = {}
        for group, topic, messages, size in list(statistics.gets()):
            key = group, *_requested_topic(topic, group)
            messages_before, size_before = given.get(key, (0, 0))
            given[key] = messages_before + messages, size_before + size
        for (group, topic, is_retry), (messages, size) in given.items():
            labels = self._labels_of(group, topic, is_retry)
            yield "messages_out_total", messages, labels
            yield "throughput_out_total", size, labels
        yield "timing_messages", self._waiting.timing, _DISK
        yield "half_messages", self._waiting.half, {}

    def _type_of(self, topic: str) -> str:
        """Return the type of a topic's messages, with RocketMQ's name."""
        if topic in (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC) or is_retry_topic(topic):
            return "delay"
        config = self._topics.get(topic)
        declared = config.attributes.get("message.type") if config is not None else None
        return (declared or "normal").lower()

    def _is_system(self, topic: str, group: str = "") -> str:
        return _word(is_system_topic(topic, self._servers_own) or is_system_group(group))

    # -- the broker ----------------------------------------------------------------------------------------------

    def _broker(self) -> Iterator[tuple[str, float, Labels]]:
        state = self._state
        yield "broker_permission", state.permission, {}
        yield "topic_number", len(self._topics.topics), {}
        yield "consumer_group_number", len(self._groups.configs.groups), {}

    def _storage(self) -> Iterator[tuple[str, float, Labels]]:
        store = self._state.store
        yield "storage_size_bytes", store.max_position - store.min_position, _DISK
        yield "storage_flush_behind_bytes", max(0, store.max_position - store.synced_position), _DISK
        yield "storage_dispatch_behind_bytes", 0, _DISK
        if store.oldest_stored_ms is not None:
            age_ms = max(0, self._state.clock.message_ms() - store.oldest_stored_ms)
            yield "storage_message_reserve_time_milliseconds", age_ms, _DISK

    # -- clients -------------------------------------------------------------------------------------------------

    def _clients(self) -> Iterator[tuple[str, float, Labels]]:
        producers = {
            connection: (_LANGUAGES.get(connection.peer.language, "other"), version_word(connection.peer.version))
            for clients in self._groups.producers.producer_table.values()
            for connection in clients
        }
        for (language, version), count in sorted(Counter(producers.values()).items()):
            labels = {"language": language, "version": version, "protocol_type": REMOTING}
            yield "producer_connections", count, labels
        for group in list(self._groups.consumers.consumer_table.values()):
            yield from self._members(group)

    def _members(self, group: ConsumerGroup) -> Iterator[tuple[str, float, Labels]]:
        kinds = Counter(
            (_LANGUAGES.get(connection.peer.language, "other"), version_word(connection.peer.version))
            for connection in group.channel_info_table
        )
        mode = _MODES.get(group.consume_type, "pull")
        for (language, version), count in sorted(kinds.items()):
            labels = {
                "consumer_group": group.name,
                "consume_mode": mode,
                "is_system": _word(is_system_group(group.name)),
            }
            yield (
                "consumer_connections",
                count,
                {**labels, "language": language, "version": version, "protocol_type": REMOTING},
            )

    # -- progress of groups --------------------------------------------------------------------------------------

    def _progress(self) -> Iterator[tuple[str, float, Labels]]:
        for group, topics in sorted(topics_by_group(self._groups).items()):
            rows: dict[tuple[str, bool], list[str]] = {}
            for topic in sorted(topics):
                rows.setdefault(_requested_topic(topic, group), []).append(topic)
            for (topic, is_retry), stored in rows.items():
                configs = [config for config in map(self._topics.get, stored) if config is not None]
                if configs:
                    yield from self._lag(group, configs, self._labels_of(group, topic, is_retry))

    def _labels_of(self, group: str, topic: str, is_retry: bool) -> Labels:
        return {
            "consumer_group": group,
            "topic": topic,
            "is_retry": _word(is_retry),
            "is_system": self._is_system(topic, group),
        }

    def _lag(self, group: str, configs: Iterable[TopicConfig], labels: Labels) -> Iterator[tuple[str, float, Labels]]:
        """Yield the lag and progress of a group, summed over some topics."""
        state = self._state
        lag = in_flight = late_ms = queueing_ms = 0
        now_ms = state.clock.message_ms()
        places = ((config.topic_name, queue_id) for config in configs for queue_id in range(config.read_queue_nums))
        for topic, queue_id in places:
            queue = state.store.queue(topic, queue_id)
            popped, in_order = self._pops.in_flight(group, topic, queue_id)
            committed = max(self._groups.offsets.committed(group, topic, queue_id), queue.min_offset)
            taken_to = max(self._groups.offsets.pull_offset(group, topic, queue_id), committed + in_order)
            lag += lag_of(queue.max_offset, committed, queue.min_offset, popped)
            in_flight += min(taken_to, max(queue.max_offset, committed)) - committed + popped
            first = max(committed - popped, queue.min_offset)
            of_first_ms = self._age_ms(queue, first, now_ms)
            late_ms = max(late_ms, of_first_ms)
            queueing_ms = max(queueing_ms, of_first_ms if taken_to == first else self._age_ms(queue, taken_to, now_ms))
        yield "consumer_lag_messages", lag, labels
        yield "consumer_lag_latency_milliseconds", late_ms, labels
        yield "consumer_inflight_messages", in_flight, labels
        yield "consumer_queueing_latency_milliseconds", queueing_ms, labels
        yield "consumer_ready_messages", lag - in_flight, labels

    def _age_ms(self, queue: Queue, offset: int, now_ms: int) -> int:
        """Return the age of a message; 0 if there is none."""
        stored_ms = self._state.store.stored_ms_of(queue, offset) if offset < queue.max_offset else None
        return 0 if stored_ms is None else now_ms - stored_ms


def _requested_topic(topic: str, group: str) -> tuple[str, bool]:
    """Return the topic that a group subscribes to for the messages of a stored topic, and whether these are retries."""
    requested = requested_topic(topic, group)
    return requested, requested != topic or topic == retry_topic(group)


def version_word(version: int) -> str:
    """Return RocketMQ's name of a version number that a client sends: 479 is v5_3_3. RocketMQ: MQVersion."""
    if version < _FIRST_PAIR:
        return str(version)
    digits = f"{version // 2 + _PAIRS_BEFORE:03d}"
    return "_".join(("v" + digits[:-2], digits[-2], digits[-1])) + ("" if version % 2 else "_snapshot")


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"
