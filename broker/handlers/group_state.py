"""The state of a group on this broker: members, locks, popped messages, waiting messages and problems."""

from collections.abc import Iterator

from staticfire.broker.access.peers import AccessPeers
from staticfire.broker.groups.consumers import ConsumerGroup
from staticfire.broker.groups.findings import findings_of
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.pulls.held_pulls import HeldPulls
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.broker.waiting import WaitingMessages
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.names import requested_topic, retry_topic
from staticfire.protocol.requests.group_state import (
    GetGroupState,
    GroupState,
    GroupStateAnswer,
    HeldState,
    LockState,
    MemberState,
    RefusedState,
    ResetState,
    ReturnedState,
    WaitingState,
)
from staticfire.runtime.dispatcher import Call, Dispatcher

# How many held pulls are examined at most.
HELD_MAX = 10_000


class GroupStateHandlers:
    """Handles requests for the state of a group."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        held: HeldPulls,
        pops: LazyPopService,
        waiting: WaitingMessages,
        peers: AccessPeers,
    ) -> None:
        self._state = state
        self._pops = pops
        self._topics = topics
        self._groups = groups
        self._held_pulls = held
        self._messages = waiting
        self._peers = peers

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handler."""
        dispatcher.handle(RequestCode.GET_GROUP_STATE, self.group_state)

    def group_state(self, call: Call) -> Answer:
        """Return the state of a group."""
        request: GetGroupState = call.request
        state, clock = self._state, self._state.machine.clock
        reading = state.clock.reading()
        found = GroupState(
            wall_ms=clock.wall_ms(),
            message_ms=reading.message_ms,
            clock_mode=reading.mode,
            answers_pulls=state.readable,
            locks=list(self._locks(request.group)),
            popped=self._pops.taken_by(request.group),
            popped_in_order=self._pops.taken_in_order(request.group),
            returned=list(self._returned(request.group)),
            refused=list(self._refused(request.group)),
            resets=list(self._resets(request.group)),
        )
        group = self._groups.consumers.consumer_table.get(request.group)
        if group is not None:
            found.members = list(self._members(group))
            found.findings = findings_of(group)
            found.held = list(self._held(group))
        if request.topics is not None:
            topics = {retry_topic(request.group), *filter(None, request.topics.split(","))}
            found.waiting = self._waiting(topics | set(group.subscriptions if group is not None else ()))
        return GroupStateAnswer(body=found)

    def _members(self, group: ConsumerGroup) -> Iterator[MemberState]:
        clock = self._state.machine.clock
        wall_before_ms = clock.wall_ms() - clock.uptime_ms()
        for member in group.channel_info_table.values():
            yield MemberState(
                member.client_id, member.counts, member.in_order, wall_before_ms + member.joined_ms,
                wall_before_ms + member.last_seen_ms, self._peers.key_of(member.connection),
            )  # fmt: skip

    def _locks(self, group: str) -> Iterator[LockState]:
        uptime_ms = self._state.machine.clock.uptime_ms()
        for queue, lock in self._groups.queue_locks.of_group(group, uptime_ms):
            waiting = list(lock.waiting or ())
            yield LockState(queue.topic, queue.queue_id, lock.client_id, uptime_ms - lock.renewed_ms, waiting)

    def _refused(self, group: str) -> Iterator[RefusedState]:
        clock = self._state.machine.clock
        wall_before_ms = clock.wall_ms() - clock.uptime_ms()
        for one in self._groups.refusals.of_group(group):
            yield RefusedState(one.topic, one.client_id, one.count, wall_before_ms + one.last_ms, one.words)

    def _resets(self, group: str) -> Iterator[ResetState]:
        uptime_ms = self._state.machine.clock.uptime_ms()
        for one in self._groups.last_resets.of_group(group):
            is_pending = self._groups.offsets.has_reset(group, one.topic, one.queue_id)
            yield ResetState(one.topic, one.queue_id, one.before, one.offset, uptime_ms - one.at_ms, is_pending)

    def _held(self, group: ConsumerGroup) -> Iterator[HeldState]:
        members = group.channel_info_table
        topics = {*group.subscriptions, retry_topic(group.name)}
        for count, pull in enumerate(self._held_pulls.of_topics(topics)):
            if count == HELD_MAX:
                return
            member = members.get(pull.call.connection)
            if member is not None and pull.call.request.consumer_group == group.name:
                yield HeldState(pull.topic, pull.queue_id, pull.offset, member.client_id)

    def _returned(self, group: str) -> Iterator[ReturnedState]:
        state = self._state
        for name in self._groups.offsets.topics_of(group):
            topic = self._topics.get(name) if requested_topic(name, group) != name else None
            for queue_id in range(topic.read_queue_nums) if topic is not None else ():
                committed = max(0, self._groups.offsets.committed(group, name, queue_id))
                yield ReturnedState(name, queue_id, committed, state.store.queue(name, queue_id).max_offset)

    def _waiting(self, topics: set[str]) -> list[WaitingState]:
        from staticfire.broker.groups.held_back import count_waiting

        return count_waiting(self._state.store, self._messages.places(), topics)
