"""Report how full queues are, how far groups have consumed, and the load of the broker. RocketMQ: AdminBrokerProcessor.

Behaviour
- Every queue of a topic is listed, also an empty one: tools create a topic and wait for its queues.
- A group without an offset in a queue counts as if its offset were 0. Of an online group only subscribed topics count,
  and the POP retry topics of these.
- Ages are differences of stored times in message time; rates are measured in uptime.

Different from RocketMQ
- Counters: BROKER_PUT_NUMS counts whatever is stored, also delayed messages that wait and dead letters; an average of
  TOPIC_PUT_* is per message. The hour and the day begin with the first sample, not with the next whole period.
- A latency counter exists from the first millisecond on; before that it is reported as 0.

Not done
- Counters of reads from disk, of POP, and those that only RocketMQ's commercial hooks count: they don't exist.
- Thread pools: there are none. Their keys are reported with the values of an idle pool.
- Times in text form are UTC, not in the time zone of the machine.
"""

from datetime import UTC, datetime

from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.handlers.runtime_info import RuntimeInfo
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.table import StaticTopicTable
from staticfire.broker.statistics import Statistics
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.hosts import host_text
from staticfire.protocol.names import requested_topic
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.routes import KVTable
from staticfire.protocol.requests.statistics import (
    BrokerConsumeStats,
    BrokerConsumeStatsAnswer,
    ConsumeStats,
    ConsumeStatsAnswer,
    ConsumeTimeSpanAnswer,
    ConsumeTimeSpans,
    GetBrokerConsumeStats,
    GetConsumeStats,
    GetTopicStats,
    GroupOffset,
    QueryConsumeTimeSpan,
    QueueTimeSpan,
    RuntimeInfoAnswer,
    StatsAnswer,
    TopicOffset,
    TopicStats,
    TopicStatsAnswer,
    ViewStats,
)
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.dispatcher import Call, Dispatcher


class StatisticsHandlers:
    """Handles the requests of dashboards."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        static_topics: StaticTopicTable,
        statistics: Statistics,
        runtime_info: RuntimeInfo,
    ) -> None:
        self._state = state
        self._topics = topics
        self._queues = TopicQueues(state, topics)
        self._groups = groups
        self._static_topics = static_topics
        self._statistics = statistics
        self._runtime_info = runtime_info

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.GET_TOPIC_STATS_INFO, self.topic_stats)
        dispatcher.handle(RequestCode.GET_CONSUME_STATS, self.consume_stats)
        dispatcher.handle(RequestCode.GET_BROKER_CONSUME_STATS, self.broker_consume_stats)
        dispatcher.handle(RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_spans)
        dispatcher.handle(RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime)
        dispatcher.handle(RequestCode.VIEW_BROKER_STATS_DATA, self.view)

    def topic_stats(self, call: Call) -> Answer:
        """Return how full the queues of a topic are."""
        request: GetTopicStats = call.request
        topic = self._topics.get(request.topic)
        if topic is None:
            return _no_topic(request.topic)
        offsets: dict[MessageQueue, TopicOffset] = {}
        for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
            queue = self._queue(topic, queue_id)
            stored_ms = self._queues.stored_ms_before(queue, queue.max_offset) or 0
            offset = TopicOffset(queue.min_offset, queue.max_offset, stored_ms)
            offsets[self._queues.named(topic.topic_name, queue_id)] = offset
        return TopicStatsAnswer(body=TopicStats(offsets, self._statistics.put_tps(request.topic)))

    def _queue(self, topic: TopicConfig, queue_id: int) -> Queue:
        return self._state.store.queue(topic.topic_name, queue_id)

    # -- progress of groups ----------------------------------------------------------------------------------------

    def consume_stats(self, call: Call) -> Answer:
        """Return how far a group has consumed."""
        request: GetConsumeStats = call.request
        wanted = [topic for topic in (request.topic_list or "").split(";") if topic]
        if not wanted:
            given = [request.topic] if request.topic else self._groups.offsets.topics_of(request.consumer_group)
            wanted = [topic for topic in given if self._counts(request.consumer_group, topic)]
        stats = ConsumeStats({}, 0.0)
        for topic in map(self._topics.get, wanted):
            if topic is not None:
                self._add_offsets(stats, request.consumer_group, topic, topic.read_queue_nums)
        return ConsumeStatsAnswer(body=stats)

    def _counts(self, group: str, topic: str) -> bool:
        """Return whether a topic counts for a group. For an online group only its subscriptions and their retries
        do."""
        online = self._groups.consumers.consumer_table.get(group)
        return online is None or not online.subscriptions or requested_topic(topic, group) in online.subscriptions

    def _add_offsets(self, stats: ConsumeStats, group: str, topic: TopicConfig, queues: int) -> None:
        for queue_id in range(queues):
            queue = self._queue(topic, queue_id)
            committed = self._groups.offsets.committed(group, topic.topic_name, queue_id)
            # -1 makes readers of a static topic look into an earlier segment of the logical queue.
            consumed = committed if topic.topic_name in self._static_topics.by_topic else max(0, committed)
            pulled = max(consumed, self._groups.offsets.pull_offset(group, topic.topic_name, queue_id))
            stored_ms = self._queues.stored_ms_before(queue, max(0, consumed)) or 0
            offset = GroupOffset(queue.max_offset, consumed, pulled, stored_ms)
            stats.offset_table[self._queues.named(topic.topic_name, queue_id)] = offset
        stats.consume_tps += self._statistics.get_tps(group, topic.topic_name)

    def broker_consume_stats(self, call: Call) -> Answer:
        """Return how far all groups have consumed."""
        request: GetBrokerConsumeStats = call.request
        found = BrokerConsumeStats([], host_text(call.connection.store_host))
        for group in list(self._groups.configs.groups):
            rows = [self._stats_of(group, topic) for topic in self._topics_of(group, request.is_order)]
            for offset in (offset for stats in rows for offset in stats.offset_table.values()):
                found.total_diff += offset.broker_offset - max(0, offset.consumer_offset)
                found.total_inflight_diff += max(0, offset.pull_offset) - max(0, offset.consumer_offset)
            found.consume_stats_list.append({group: rows})
        return BrokerConsumeStatsAnswer(body=found)

    def _topics_of(self, group: str, ordered_only: bool) -> list[TopicConfig]:
        names = [name for name in self._groups.offsets.topics_of(group) if self._counts(group, name)]
        topics = [topic for topic in map(self._topics.get, names) if topic is not None]
        return [topic for topic in topics if topic.order or not ordered_only]

    def _stats_of(self, group: str, topic: TopicConfig) -> ConsumeStats:
        stats = ConsumeStats({}, 0.0)
        self._add_offsets(stats, group, topic, topic.write_queue_nums)
        return stats

    def time_spans(self, call: Call) -> Answer:
        """Return how much a group lags, in time."""
        request: QueryConsumeTimeSpan = call.request
        topic = self._topics.get(request.topic)
        if topic is None:
            return _no_topic(request.topic)
        spans = [self._time_span(request, queue_id) for queue_id in range(topic.write_queue_nums)]
        return ConsumeTimeSpanAnswer(body=ConsumeTimeSpans(spans))

    def _time_span(self, request: QueryConsumeTimeSpan, queue_id: int) -> QueueTimeSpan:
        state = self._state
        queue = self._queues.find(request.topic, queue_id)
        assert queue is not None, "the topic has that many queues"
        first_ms = state.store.stored_ms_of(queue, queue.min_offset)
        last_ms = self._queues.stored_ms_before(queue, queue.max_offset)
        consumed = self._groups.offsets.committed(request.group, request.topic, queue_id)
        consumed_ms = self._queues.stored_ms_before(queue, consumed) if consumed > 0 else first_ms
        next_ms = state.store.stored_ms_of(queue, max(consumed, 0))
        late_ms = 0 if next_ms is None else max(0, state.clock.message_ms() - next_ms)
        first, last, consumed_at = (-1 if time_ms is None else time_ms for time_ms in (first_ms, last_ms, consumed_ms))
        where = self._queues.named(request.topic, queue_id)
        words = _in_words(first), _in_words(last), _in_words(consumed_at)
        return QueueTimeSpan(where, first, last, consumed_at, late_ms, *words)

    # -- load of the broker ------------------------------------------------------------------------------------------

    def runtime(self, call: Call) -> Answer:
        """Return the runtime information of the broker."""
        return RuntimeInfoAnswer(body=KVTable(self._runtime_info.table()))

    def view(self, call: Call) -> Answer:
        """Return one counter."""
        request: ViewStats = call.request
        spans = self._statistics.spans(request.stats_name, request.stats_key, self._state.cluster)
        if spans is None:
            words = f"The stats <{request.stats_name}> <{request.stats_key}> not exist"
            return refusal(ResponseCode.SYSTEM_ERROR, words)
        return StatsAnswer(body=spans)


def _no_topic(topic: str) -> Answer:
    return refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")


def _in_words(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"
