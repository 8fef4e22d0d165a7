"""Reset, copy and compare the offsets of groups. RocketMQ: AdminBrokerProcessor.resetOffset, Broker2Client.

Behaviour
- Pulls of the group receive the offset of a reset, held ones at once, until the owner of the queue continues there:
  groups/pending_resets.py. No member has to be online. Until then, commits of that queue are ignored.
- When offsets are copied to a group that has members or a pending reset, the group is reset to them: otherwise the next
  commit of a member would overwrite them.
- With useServerSideResetOffset=false the online members are notified instead; without any, the reset is refused.
  mqadmin resetOffsetByTime -b -q also commits the new offset, therefore.
- A requested offset must be in the queue, or at most one after its end.

Different from RocketMQ
- A held pull or pop is answered at once; in RocketMQ it waits for a message or its deadline.
- A reset waits for the owner. In RocketMQ any pull of the group takes the reset, also a pull of a former owner, which
  ignores the response. With anyPullTakesResets=true it is as in RocketMQ.
- A queue that the topic doesn't have is refused, with or without a requested offset.
- With useServerSideResetOffset=false, a reset of one queue moves that queue. In RocketMQ it moves all queues of the
  topic to the time.
"""

import asyncio

from staticfire.broker.config_files import OFFSETS_FILE, ConfigFiles
from staticfire.broker.groups.offsets import LastReset
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.handlers.connections import ask_member
from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.time_search import Boundary
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import INT64_MAX
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.reset_offset import (
    CloneGroupOffset,
    ConsumerStatus,
    ConsumerStatusAnswer,
    CorrectionOffsets,
    CorrectionOffsetsAnswer,
    CppQueueOffset,
    CppQueueOffsets,
    GetClientStatus,
    GetConsumerStatus,
    QueryCorrectionOffset,
    QueueOffsetsAnswer,
    ResetClientOffset,
    ResetOffset,
    ResetOffsetBody,
)
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.times import MessageMs
from staticfire.runtime.dispatcher import Call, Dispatcher

Offsets = dict[MessageQueue, int]

OFFSET_MAX = INT64_MAX


class ResetOffsetHandlers:
    """Handles requests that move groups to other offsets."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        config_files: ConfigFiles,
        pulls: PullHandlers,
        pops: LazyPopService,
    ) -> None:
        self._state = state
        self._topics = topics
        self._queues = TopicQueues(state, topics)
        self._groups = groups
        self._offsets = groups.offsets
        self._config_files = config_files
        self._pulls = pulls
        self._pops = pops

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, self.reset)
        dispatcher.handle(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, self.status)
        dispatcher.handle(RequestCode.CLONE_GROUP_OFFSET, self.clone)
        dispatcher.handle(RequestCode.QUERY_CORRECTION_OFFSET, self.correction)

    # -- resets ------------------------------------------------------------------------------------------------------

    async def reset(self, call: Call) -> Answer:
        """Reset a group in one queue or in all queues of a topic; answer after the offsets are saved."""
        request: ResetOffset = call.request
        topic = self._check(request)
        if not self._state.settings.use_server_side_reset_offset:
            return self._tell_members(call, request, topic)
        queue_ids = range(topic.read_queue_nums) if request.queue_id < 0 else [request.queue_id]
        moved: Offsets = {}
        for queue_id in queue_ids:
            moved[self._queues.named(request.topic, queue_id)] = self._target(request, queue_id)
        for queue, offset in moved.items():
            self._reset(request, queue.queue_id, offset)
        for queue in moved:
            self._pulls.answer_group(request.group, request.topic, queue.queue_id)
        self._pops.group_moved(request.group, request.topic)
        self._config_files.changed(OFFSETS_FILE)
        await self._config_files.saved(OFFSETS_FILE)
        return QueueOffsetsAnswer(body=ResetOffsetBody(moved))

    def _reset(self, request: ResetOffset, queue_id: int, offset: int) -> None:
        group, topic, uptime_ms = request.group, request.topic, self._state.machine.clock.uptime_ms()
        before = self._offsets.committed(group, topic, queue_id)
        self._groups.last_resets.note(group, LastReset(topic, queue_id, before, offset, uptime_ms))
        self._offsets.reset(group, topic, queue_id, offset)

    def _check(self, request: ResetOffset) -> TopicConfig:
        """Return the topic. Raises: BrokerAnswer."""
        if self._state.settings.broker_id != 0:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise BrokerAnswer(ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist")
        if self._groups.configs.get(request.group) is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {request.group} does not exist")
        return topic

    def _target(self, request: ResetOffset, queue_id: int) -> int:
        """Return the offset to reset the group to. Raises: BrokerAnswer (not in the queue)."""
        queue = self._queues.find(request.topic, queue_id)
        if queue is not None and (request.queue_id < 0 or request.offset == -1):
            return self._offset_at(queue, request.timestamp)
        first, end = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if queue is None or not first <= request.offset <= end + 1:
            words = f"Target offset {request.offset} not in consume queue range [{first}-{end}]"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        return request.offset

    def _offset_at(self, queue: Queue, timestamp: int) -> int:
        if timestamp < 0:
            return queue.max_offset
        return self._state.store.search_offset(queue, MessageMs(timestamp), Boundary.LOWER)

    # -- with useServerSideResetOffset=false ---------------------------------------------------------------------------

    def _tell_members(self, call: Call, request: ResetOffset, topic: TopicConfig) -> Answer:
        """Notify the members, which reset themselves. RocketMQ: Broker2Client.resetOffset. Raises: BrokerAnswer."""
        moved: Offsets = {}
        for queue_id in range(topic.write_queue_nums) if request.queue_id < 0 else [request.queue_id]:
            moved[self._queues.named(request.topic, queue_id)] = self._target_of_members(request, queue_id)
        online = self._groups.consumers.consumer_table.get(request.group)
        if online is None:
            words = (
                f"Consumer not online, so can not reset offset, Group: {request.group} Topic: {request.topic} "
                f"Timestamp: {request.timestamp}"
            )
            raise BrokerAnswer(ResponseCode.CONSUMER_NOT_ONLINE, words)
        body: ResetOffsetBody | CppQueueOffsets = ResetOffsetBody(moved)
        if call.peer.language == LanguageCode.CPP:
            body = CppQueueOffsets([CppQueueOffset(q.topic, q.broker_name, q.queue_id, o) for q, o in moved.items()])
        for member in online.channel_info_table.values():
            if member.connection.is_open:
                notice = ResetClientOffset(request.topic, request.group, request.timestamp, body=body)
                member.connection.tell(notice)
        return QueueOffsetsAnswer(body=ResetOffsetBody(moved))

    def _target_of_members(self, request: ResetOffset, queue_id: int) -> int:
        """Return the offset that the members go to in a queue. Raises: BrokerAnswer (the group or queue is unknown)."""
        committed = self._offsets.committed(request.group, request.topic, queue_id)
        if committed == -1:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{request.group}> not exist")
        offset = self._target(request, queue_id)
        is_given = request.queue_id >= 0 and request.offset != -1
        return offset if is_given or request.is_force or offset < committed else committed

    # -- offsets of members --------------------------------------------------------------------------------------------

    async def status(self, call: Call) -> Answer:
        """Return the offsets of a group's members. Each member is queried; one that doesn't respond is left out."""
        request: GetConsumerStatus = call.request
        online = self._groups.consumers.consumer_table.get(request.group)
        if online is None:
            words = f"the consumer group <{request.group}> is not online: only its members know their offsets"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        members = [
            member
            for member in online.channel_info_table.values()
            if not request.client_addr or member.client_id == request.client_addr
        ]
        pending = [ask_member(one, request.group, GetClientStatus(request.topic, request.group)) for one in members]
        table: dict[str, Offsets] = {}
        for member, answer in zip(members, await asyncio.gather(*pending, return_exceptions=True), strict=True):
            if isinstance(answer, Answer) and answer.code == 0 and answer.body is not None:
                table[member.client_id] = answer.body.message_queue_table
        return ConsumerStatusAnswer(body=ConsumerStatus({}, table))

    # -- copies and comparisons ----------------------------------------------------------------------------------------

    def clone(self, call: Call) -> Answer:
        """Copy the offsets of a group to another one. Topics in which the source group has no offset don't change."""
        request: CloneGroupOffset = call.request
        topics = [request.topic] if request.topic else self._offsets.topics_of(request.src_group)
        for topic in topics:
            for queue_id, offset in self._offsets.queues_of(request.src_group, topic).items():
                self._place(request.dest_group, topic, queue_id, offset)
            self._pops.group_moved(request.dest_group, topic)
        return Answer()

    def _place(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the offset of a group, whether it has members or not."""
        settings = self._state.settings
        is_at_work = group in self._groups.consumers.consumer_table
        waits = self._offsets.has_reset(group, topic, queue_id)
        is_final = settings.use_server_side_reset_offset and not settings.any_pull_takes_resets
        if is_final and (is_at_work or waits):
            self._offsets.reset(group, topic, queue_id, offset)
            self._pulls.answer_group(group, topic, queue_id)
        else:
            self._offsets.commit(group, topic, queue_id, offset)

    def correction(self, call: Call) -> Answer:
        """Return each queue's smallest offset over the groups, or OFFSET_MAX if the compared group's is smaller."""
        request: QueryCorrectionOffset = call.request
        left_out = {group.strip() for group in (request.filter_groups or "").split(",")}
        smallest: dict[int, int] = {}
        for group in self._offsets.groups_of(request.topic):
            for queue_id, offset in self._offsets.queues_of(group, request.topic).items():
                if group not in left_out:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        for queue_id, offset in self._offsets.queues_of(request.compare_group, request.topic).items():
            if offset < smallest.get(queue_id, offset):
                smallest[queue_id] = OFFSET_MAX
        return CorrectionOffsetsAnswer(body=CorrectionOffsets(dict(sorted(smallest.items()))))
