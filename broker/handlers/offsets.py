"""Query and commit offsets. RocketMQ: ConsumerManageProcessor, AdminBrokerProcessor.

Behaviour
- A group without an offset gets 0 if the queue still has its first message, so a new group on a young queue starts at 0
  even with CONSUME_FROM_LAST_OFFSET; otherwise the response is QUERY_NOT_FOUND.
- GET_MAX_OFFSET right after such a response returns the end that the queue had at that time (groups/first_offsets.py).
- Any offset and any queue id is stored; commits are ignored while a reset is pending.

Different from RocketMQ
- A lower commit of a member is ignored if another member has its queue by now (groups/late_commits.py).
"""

from staticfire.broker.groups.late_commits import LateCommits
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.state import BrokerState
from staticfire.broker.store.time_search import Boundary
from staticfire.broker.surprises import Surprises
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    UpdateConsumerOffset,
)
from staticfire.protocol.times import MessageMs
from staticfire.runtime.dispatcher import Call, Dispatcher

LATE_COMMIT = "The offset is lower than the group's, and another member has the queue: it was not stored"


class OffsetHandlers:
    """Handles queries of offsets and commits."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        late_commits: LateCommits,
        surprises: Surprises,
    ) -> None:
        self._state = state
        self._store = state.store
        self._topics = topics
        self._queues = TopicQueues(state, topics)
        self._groups = groups
        self._late_commits = late_commits
        self._surprises = surprises
        self._uptime_ms = state.machine.clock.uptime_ms

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.QUERY_CONSUMER_OFFSET, self.query)
        dispatcher.handle(RequestCode.UPDATE_CONSUMER_OFFSET, self.update)
        dispatcher.handle(RequestCode.GET_MAX_OFFSET, self.max_offset)
        dispatcher.handle(RequestCode.GET_MIN_OFFSET, self.min_offset)
        dispatcher.handle(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self.search)
        dispatcher.handle(RequestCode.GET_EARLIEST_MSG_STORETIME, self.earliest)

    def query(self, call: Call) -> Answer:
        """Return the offset of a group in a queue."""
        request: QueryConsumerOffset = call.request
        offset = self._groups.offsets.committed(request.consumer_group, request.topic, request.queue_id)
        if offset >= 0:
            return OffsetAnswer(offset)
        if request.set_zero_if_not_found is False:
            self._began(call, -1)
            remark = "Not found, do not set to zero, maybe this group boot first"
            return refusal(ResponseCode.QUERY_NOT_FOUND, remark)
        queue = self._queues.find(request.topic, request.queue_id)
        if queue is not None and queue.min_offset <= 0 < queue.max_offset:
            self._began(call, 0)
            return OffsetAnswer(0)
        self._began(call, -1)
        return refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def _began(self, call: Call, offset: int) -> None:
        """Note where a group with members begins to consume (-1: the client decides). Ignore other groups."""
        request: QueryConsumerOffset = call.request
        group = self._groups.consumers.consumer_table.get(request.consumer_group)
        if group is None:
            return
        topic, queue_id = request.topic, request.queue_id
        self._surprises.began(group.name, topic, queue_id, offset, group.consume_from_where)
        member = group.channel_info_table.get(call.connection)
        queue = self._queues.find(topic, queue_id)
        if offset < 0 and member is not None and queue is not None and self._state.settings.remember_first_offsets:
            self._groups.first_offsets.has_none(group, member, queue, self._uptime_ms())

    def update(self, call: Call) -> Answer:
        """Commit the offset of a group."""
        request: UpdateConsumerOffset = call.request
        group, topic = request.consumer_group, request.topic
        if self._groups.configs.get(group) is None:
            return refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self._topics.get(topic) is None:
            return refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if request.queue_id is None:
            return refusal(ResponseCode.INVALID_PARAMETER, f"QueueId is null, topic is {topic}")
        if request.commit_offset is None:
            return refusal(ResponseCode.INVALID_PARAMETER, f"Offset is null, topic is {topic}")
        if self._groups.offsets.has_reset(group, topic, request.queue_id):
            return Answer(remark="Offset has been previously reset")
        if self._late_commits.is_late(call.connection, group, topic, request.queue_id, request.commit_offset):
            return Answer(remark=LATE_COMMIT)
        self._groups.offsets.commit(group, topic, request.queue_id, request.commit_offset)
        return Answer()

    def max_offset(self, call: Call) -> Answer:
        """Return the offset that the next message will get; 0 for an unknown queue."""
        request: GetMaxOffset = call.request
        queue = self._queues.find(request.topic, request.queue_id)
        if queue is None:
            return OffsetAnswer(0)
        return OffsetAnswer(self._groups.first_offsets.end_for(call.connection, queue, self._uptime_ms()))

    def min_offset(self, call: Call) -> Answer:
        """Return the oldest offset; 0 for an unknown queue."""
        request: GetMinOffset = call.request
        queue = self._queues.find(request.topic, request.queue_id)
        return OffsetAnswer(0 if queue is None else queue.min_offset)

    def search(self, call: Call) -> Answer:
        """Return the offset at a stored time; 0 for an unknown queue."""
        request: SearchOffset = call.request
        queue = self._queues.find(request.topic, request.queue_id)
        if queue is None:
            return OffsetAnswer(0)
        upper = (request.boundary_type or "").lower() == "upper"
        boundary = Boundary.UPPER if upper else Boundary.LOWER
        return OffsetAnswer(self._store.search_offset(queue, MessageMs(request.timestamp), boundary))

    def earliest(self, call: Call) -> Answer:
        """Return when a queue's oldest message was stored; -1 if it has none."""
        request: GetEarliestStoreTime = call.request
        queue = self._queues.find(request.topic, request.queue_id)
        stored_ms = None if queue is None else self._store.stored_ms_of(queue, queue.min_offset)
        return TimestampAnswer(-1 if stored_ms is None else stored_ms)
