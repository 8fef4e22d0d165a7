"""Collects everything about a consumer group: queries all brokers and all its members at the same time.

It works with RocketMQ's brokers, too. Only staticfire's have findings and a journal. For others, the problems are
derived from what the members report, as far as possible.
"""

import asyncio
from collections.abc import Mapping

from staticfire.client.admin.group_view import (
    GroupMember,
    GroupView,
    GroupWarning,
    QueueProgress,
    flapping,
    warnings_of,
)
from staticfire.client.admin.holdings import Holdings
from staticfire.client.admin.journal import read_journals
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import BrokerAnswer, NetworkError
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.protocol.requests.connections import ConsumerConnections, GetConsumerConnections, GetConsumerRunningInfo
from staticfire.protocol.requests.faults import GetFaults
from staticfire.protocol.requests.group_state import GetGroupState, PoppedState, ReturnedState
from staticfire.protocol.requests.journal import JOINED, LEFT, GetJournal
from staticfire.protocol.requests.statistics import ConsumeStats, GetConsumeStats, GetTopicStats, GroupOffset

BROADCASTING = "BROADCASTING"
# The maximum number of subscribed topics without an offset whose messages are counted.
UNCOMMITTED_TOPICS_MAX = 50
Findings = dict[tuple[str, str], str]


class GroupSurvey:
    """One survey of one group."""

    def __init__(self, client: ClusterClient, brokers: Mapping[str, str], group: str, timeout_ms: int) -> None:
        """`brokers`: addresses of masters by name."""
        self._client = client
        self._brokers = brokers
        self._timeout_ms = timeout_ms
        self._view = GroupView(group, list(brokers))
        # The broker to query each member through.
        self._seen_at: dict[str, str] = {}
        # The current time of those brokers that report it.
        self._wall_ms: dict[str, int] = {}
        self._popped: dict[MessageQueue, list[PoppedState]] = {}
        self._in_order: dict[MessageQueue, int] = {}
        """How many messages were popped in order and aren't acknowledged."""
        self._returned: dict[MessageQueue, ReturnedState] = {}
        self._offsets: dict[MessageQueue, GroupOffset] = {}
        self._not_begun: set[str] = set()
        self._firsts: dict[MessageQueue, int] = {}
        # Queues whose members haven't applied a reset yet: what they report is older than what is committed.
        self._being_reset: set[MessageQueue] = set()

    async def look(self) -> GroupView:
        """Return the state of the group. Raises: NetworkError (a broker can't be reached)."""
        view = self._view
        answers = await self._ask_all(GetConsumerConnections(view.group))
        members = self._members(answers)
        view.members = [members[client_id] for client_id in sorted(members)]
        await asyncio.gather(*(self._ask_member(member) for member in view.members))
        stats = await self._stats()
        # Query the offsets before the popped messages: otherwise a message popped in between would be in neither.
        findings = await self._states()
        for answers in stats:
            self._take_stats(answers)
        await self._first_offsets()
        self._take_progress()
        view.dead_letters = await self._dead_letters()
        view.warnings = [*await self._faults(), *warnings_of(view, findings), *await self._flapping()]
        return view

    async def _ask_all(self, request: Request) -> dict[str, Answer]:
        """Return the responses of all brokers, including errors."""
        pool = self._client.pool
        pending = (pool.ask(address, request, self._timeout_ms) for address in self._brokers.values())
        return dict(zip(self._brokers, await asyncio.gather(*pending), strict=True))

    def _members(self, answers: Mapping[str, Answer]) -> dict[str, GroupMember]:
        view = self._view
        found: dict[str, GroupMember] = {}
        for name, answer in answers.items():
            if answer.code != SUCCESS or answer.body is None:
                continue  # The group isn't online at this broker.
            connections: ConsumerConnections = answer.body
            view.consume_type = connections.consume_type or view.consume_type
            view.message_model = connections.message_model or view.message_model
            view.topics = sorted({*view.topics, *connections.subscription_table})
            view.consume_from_where = connections.consume_from_where or view.consume_from_where
            for one in connections.connection_set:
                if one.client_id not in found:
                    found[one.client_id] = GroupMember(one.client_id, one.client_addr, one.language, str(one.version))
                    self._seen_at[one.client_id] = self._brokers[name]
        return found

    async def _ask_member(self, member: GroupMember) -> None:
        """Query a member for its running info."""
        request = GetConsumerRunningInfo(self._view.group, member.client_id)
        try:
            answer = await self._client.pool.ask(self._seen_at[member.client_id], request, self._timeout_ms)
        except NetworkError:
            member.silence = f"no response within {self._timeout_ms} ms"
            return
        if answer.code == SUCCESS and answer.body is not None:
            member.tell(answer.body)
        else:
            member.silence = answer.remark or "it reports no state"

    async def _states(self) -> Findings | None:
        """Add what brokers report about members. Return their findings; None if no broker looks for any."""
        findings: Findings | None = None
        members = {member.client_id: member for member in self._view.members}
        for name, answer in (await self._ask_all(GetGroupState(self._view.group))).items():
            if answer.code != SUCCESS or answer.body is None:
                continue
            findings = findings or {}
            self._wall_ms[name] = answer.body.wall_ms
            findings |= {(one.kind, one.subject): one.words for one in answer.body.findings}
            for popped in answer.body.popped:
                self._popped.setdefault(MessageQueue(popped.topic, name, popped.queue_id), []).append(popped)
            for taken in answer.body.popped_in_order:
                self._in_order[MessageQueue(taken.topic, name, taken.queue_id)] = taken.count
            for reset in answer.body.resets:
                if reset.is_pending:
                    self._being_reset.add(MessageQueue(reset.topic, name, reset.queue_id))
            for back in answer.body.returned:
                self._returned[MessageQueue(back.topic, name, back.queue_id)] = back
            for state in answer.body.members:
                member = members.get(state.client_id)
                if member is not None:
                    member.counts = member.counts and state.counts
                    member.access_key = member.access_key or state.access_key
                    member.in_order = state.in_order if member.in_order is None else member.in_order
        return findings

    async def _stats(self) -> list[dict[str, Answer]]:
        """Query the group's progress. Brokers include topics without a committed offset only if they are named."""
        everything = await self._ask_all(GetConsumeStats(self._view.group))
        counted = {wire.topic for stats in map(_stats_in, everything.values()) for wire in stats.offset_table}
        # The retries of a group that left before they were due have no committed offset either.
        named = dict.fromkeys([*self._view.topics, retry_topic(self._view.group)])
        left = [topic for topic in named if topic not in counted]
        if self._view.message_model == BROADCASTING:
            left = []
        self._not_begun = set(left)
        pending = (self._ask_all(GetConsumeStats(self._view.group, topic)) for topic in left[:UNCOMMITTED_TOPICS_MAX])
        return [everything, *await asyncio.gather(*pending)]

    def _take_stats(self, answers: Mapping[str, Answer]) -> None:
        for stats in map(_stats_in, answers.values()):
            self._view.consume_tps += stats.consume_tps
            for wire, offset in stats.offset_table.items():
                self._offsets[MessageQueue(wire.topic, wire.broker_name, wire.queue_id)] = offset

    async def _first_offsets(self) -> None:
        """Query which messages are still stored, in the topics in which the group lags."""
        topics = {queue.topic for queue, one in self._offsets.items() if one.broker_offset > one.consumer_offset}
        wanted = sorted(topics)[:UNCOMMITTED_TOPICS_MAX]
        for topic, answers in zip(
            wanted, await asyncio.gather(*(self._ask_all(GetTopicStats(topic)) for topic in wanted)), strict=True
        ):
            for name, answer in answers.items():
                if answer.code == SUCCESS and answer.body is not None:
                    for wire, ends in answer.body.offset_table.items():
                        self._firsts[MessageQueue(topic, name, wire.queue_id)] = ends.min_offset

    def _take_progress(self) -> None:
        """Add the group's progress. Retries of popped messages are counted with the messages of their own topic."""
        found = self._offsets
        for queue, back in self._returned.items():
            stored_ms = found[queue].last_timestamp if queue in found else 0
            found[queue] = GroupOffset(back.end, back.committed, back.committed, stored_ms)
        holdings = Holdings(self._view.group, self._view.members)
        self._view.progress = [self._progress_in(queue, found[queue], holdings) for queue in sorted(found)]

    def _progress_in(self, queue: MessageQueue, offset: GroupOffset, holdings: Holdings) -> QueueProgress:
        popped = self._popped.get(queue, [])
        unacknowledged = sum(one.count for one in popped)
        working_from = min((one.offsets[0][0] for one in popped if not one.failed and one.offsets), default=-1)
        return QueueProgress(
            *queue, offset.consumer_offset, offset.broker_offset,
            max(0, offset.pull_offset - offset.consumer_offset) + unacknowledged + self._in_order.get(queue, 0),
            offset.last_timestamp,
            *holdings.owners(queue), unacknowledged, working_from, queue.topic not in self._not_begun,
            self._reported(queue, holdings), self._firsts.get(queue, 0),
        )  # fmt: skip

    def _reported(self, queue: MessageQueue, holdings: Holdings) -> int:
        if queue in self._being_reset or self._view.message_model == BROADCASTING:
            return -1
        return max((held.commit_offset for _, held in holdings.of(queue)), default=-1)

    async def _dead_letters(self) -> int:
        answers = await self._ask_all(GetTopicStats(dead_letter_topic(self._view.group)))
        return sum(
            offset.max_offset - offset.min_offset
            for answer in answers.values()
            if answer.code == SUCCESS and answer.body is not None
            for offset in answer.body.offset_table.values()
        )

    async def _faults(self) -> list[GroupWarning]:
        """Query the fault rules that may affect this group."""
        answers = await self._ask_all(GetFaults())
        there = {name: answer.body for name, answer in answers.items() if answer.code == SUCCESS and answer.body}
        if not any(one.states for one in there.values()):
            return []
        from staticfire.client.admin.faults import warnings_of_rules  # Imported here because few clusters have rules.

        topics = {queue.topic for queue in self._view.progress}
        clients = [member.client_id for member in self._view.members]
        states = {name: one.states for name, one in there.items()}
        return [GroupWarning("fault", words) for words in warnings_of_rules(states, self._view.group, topics, clients)]

    async def _flapping(self) -> list[GroupWarning]:
        """Look in the journals, if there are any, for members that keep joining and leaving."""
        found: dict[str, GroupWarning] = {}
        ids = [member.client_id for member in self._view.members]
        for name, now_ms in self._wall_ms.items():
            wanted = GetJournal(kinds=f"{JOINED},{LEFT}", group=self._view.group)
            try:
                records = await read_journals(self._client, {name: self._brokers[name]}, wanted, self._timeout_ms)
            except BrokerAnswer:
                continue
            found |= {warning.words: warning for warning in flapping(records, ids, now_ms)}
        return list(found.values())


def _stats_in(answer: Answer) -> ConsumeStats:
    """Return a group's progress on a broker; empty if the broker refused."""
    stats: ConsumeStats | None = answer.body if answer.code == SUCCESS else None
    return ConsumeStats({}, 0.0) if stats is None else stats
