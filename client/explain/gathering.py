"""Queries the facts about a group: all brokers at once, but only the topics that are related to the group.

First the brokers are queried for their groups, and a survey collects the members and their progress. This determines
the topics: the requested one, those that members subscribe to, and those that brokers know. Then these topics, the
retries, the brokers' states and fault rules are queried together; at last the journal, and the messages that block
queues.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.faults import FaultAdmin
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.admin.holdings import Holdings
from staticfire.client.admin.peek import peek_messages
from staticfire.client.cluster.namespaces import SEPARATOR
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.facts import ALL_MESSAGES, GroupFacts, QueueFacts, TopicFacts
from staticfire.client.explain.findings import count
from staticfire.client.explain.journal_reading import STUCK_MAX, JournalReader
from staticfire.client.explain.of_places import unconnected
from staticfire.client.explain.replicas import compare_replicas, read_replicas, topics_at_slaves
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import BrokerAnswer, NetworkError, TopicNotFound
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import TOOLS_GROUP, is_dead_letter_topic, is_retry_topic, pop_retry_topic, retry_topic
from staticfire.protocol.pop_handles import RETRY, RETRY_V2
from staticfire.protocol.requests.access import GetAccess
from staticfire.protocol.requests.group_state import GetGroupState
from staticfire.protocol.requests.groups import GetAllGroups
from staticfire.protocol.requests.routes import KVTable
from staticfire.protocol.requests.statistics import GetRuntimeInfo, GetTopicStats
from staticfire.protocol.requests.topics import AllTopics, GetAllTopicConfigs

TOPICS_MAX = 50
SAMPLES_MAX = 16
SIMILAR_MAX = 3


class FactsReader:
    """Collects the facts about one group, once."""

    def __init__(
        self,
        admin: Admin,
        group: str,
        topic: str | None,
        brokers: Iterable[str] = (),
    ) -> None:
        """`topic`: one that the group should consume, whether it subscribes to it or not. `brokers`: the known ones."""
        self._admin = admin
        self._client = admin.client
        self._facts = GroupFacts(group)
        self._wanted = [topic] if topic else []
        self._known = brokers
        self._brokers: dict[str, str] = {}
        self._committed: dict[MessageQueue, int] = {}
        self._holdings = Holdings(group, [])

    async def read(self) -> GroupFacts:
        """Return the facts. Raises: NetworkError (no nameserver responds)."""
        facts = self._facts
        replicas = await read_replicas(self._admin, facts)
        facts.missing = sorted(set(self._known) - set(facts.addresses))
        names = await self._groups(facts.addresses)
        facts.is_known = facts.group in names or bool(facts.away)
        if not facts.is_known:
            facts.similar = similar(facts.group, names)
        if self._brokers:
            facts.view = await GroupSurvey(self._client, self._brokers, facts.group, self._admin.timeout_ms).look()
            self._committed = {one.queue: one.committed for one in facts.view.progress if one.has_begun}
            self._holdings = Holdings(facts.group, facts.members)
        at_slaves = await topics_at_slaves(self._client, facts, self._admin.timeout_ms)
        named = [*self._wanted, *facts.subscribed(), *self._topics_known(), *at_slaves]
        topics = list(dict.fromkeys(named))[:TOPICS_MAX]
        await asyncio.gather(
            self._states(topics),
            *(self._topic(topic) for topic in topics),
            self._retries(topics),
            self._faults(),
            self._access(),
        )
        await compare_replicas(self._client, replicas, facts, self._admin.timeout_ms)
        self._resets()
        self._popped()
        await self._changes()
        await JournalReader(self._admin, self._brokers, facts).read()
        await self._messages()
        return facts

    # -- brokers -------------------------------------------------------------------------------------------------

    async def _ask_all(self, brokers: Mapping[str, str], request: Request) -> dict[str, Answer]:
        """Return the brokers' responses; note those that don't respond."""
        pending = (self._client.pool.ask(address, request, self._admin.timeout_ms) for address in brokers.values())
        answers: dict[str, Answer] = {}
        for name, answer in zip(brokers, await asyncio.gather(*pending, return_exceptions=True), strict=True):
            if isinstance(answer, NetworkError):
                self._facts.away[name] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers[name] = answer
        return answers

    async def _groups(self, masters: Mapping[str, str]) -> list[str]:
        """Find out which brokers respond, and return the groups that they have."""
        names: set[str] = set()
        facts = self._facts
        for name, answer in (await self._ask_all(masters, GetAllGroups())).items():
            self._brokers[name] = masters[name]
            table = answer.body.subscription_group_table if answer.body is not None else {}
            names |= set(table)
            if facts.group in table:
                facts.config[name] = table[facts.group]
        facts.brokers = sorted(self._brokers)
        return sorted(names)

    async def _states(self, topics: Iterable[str]) -> None:
        request = GetGroupState(self._facts.group, ",".join(topics))
        for name, answer in (await self._ask_all(self._brokers, request)).items():
            if answer.code == SUCCESS and answer.body is not None:
                self._facts.states[name] = answer.body

    async def _access(self) -> None:
        """Add what brokers refused; RocketMQ's don't tell that."""
        for answer in (await self._ask_all(self._brokers, GetAccess())).values():
            if answer.code == SUCCESS and answer.body is not None:
                self._facts.refused += answer.body.refused

    def _resets(self) -> None:
        """Add the resets of the group by administrators."""
        found = {
            MessageQueue(reset.topic, name, reset.queue_id): reset
            for name, state in self._facts.states.items()
            for reset in state.resets
        }
        for queue in self._facts.queues():
            queue.reset = found.get(queue.queue)
            if queue.reset is not None and queue.reset.is_pending:
                queue.consumed = queue.committed  # Its owner hasn't noticed the reset yet.

    def _popped(self) -> None:
        """Add what was popped and isn't acknowledged."""
        by_queue = {queue.queue: queue for queue in self._facts.queues()}
        for name, state in self._facts.states.items():
            for popped in state.popped:
                queue = by_queue.get(MessageQueue(popped.topic, name, popped.queue_id))
                if queue is not None:
                    queue.unacknowledged += popped.count
            for popped in state.popped_in_order:
                queue = by_queue.get(MessageQueue(popped.topic, name, popped.queue_id))
                if queue is not None:
                    queue.taken_in_order = popped.count

    async def _changes(self) -> None:
        """Add when the brokers that members aren't connected to have started, or their topics have changed."""
        facts = self._facts
        names = {name for member in facts.members for name in unconnected(facts, member)}
        brokers = {name: self._brokers[name] for name in sorted(names)}
        for request in (GetRuntimeInfo(), GetAllTopicConfigs()) if brokers else ():
            for name, answer in (await self._ask_all(brokers, request)).items():
                if answer.code == SUCCESS and answer.body is not None:
                    facts.changed_ms[name] = max(facts.changed_ms.get(name, 0), _changed_ms(answer.body))

    async def _faults(self) -> None:
        """Add the rules for injected faults; RocketMQ has none."""
        namesrv = ";".join(self._client.nameservers.addresses)
        pending = FaultAdmin(self._client.pool, namesrv, timeout_ms=self._admin.timeout_ms)
        try:
            views = await pending.views()
        except (BrokerAnswer, NetworkError):
            return
        self._facts.faults = [f"{view.number}: {view.words}, {count(view.hit, 'hit')}" for view in views]

    def _topics_known(self) -> list[str]:
        """Return the topics that the group subscribes to, has offsets in, or of which a member has queues."""
        held = (queue.topic for member in self._facts.members for queue in member.queues)
        named = {*self._facts.view.topics, *(queue.topic for queue in self._facts.view.progress), *held}
        return sorted(topic for topic in named if not is_retry_topic(topic) and not is_dead_letter_topic(topic))

    # -- topics --------------------------------------------------------------------------------------------------

    async def _topic(self, name: str) -> None:
        topic = self._facts.topics[name] = TopicFacts(name)
        try:
            route = await self._admin.route(name)
        except TopicNotFound:
            topic.exists = False
            topic.similar = similar(name, await self._admin.topics())
            return
        topic.brokers = sorted(queues.broker_name for queues in route.queue_datas)
        topic.perms = {queues.broker_name: queues.perm for queues in route.queue_datas}
        topic.shapes = {
            queues.broker_name: (queues.read_queue_nums, queues.write_queue_nums) for queues in route.queue_datas
        }
        for one in await self._queues(name):
            reads, _ = topic.shapes.get(one.queue.broker_name, (one.queue.queue_id + 1, 0))
            (topic.queues if one.queue.queue_id < reads else topic.hidden).append(one)

    async def _retries(self, topics: Iterable[str]) -> None:
        """Add the queues of retries: those of the group, and if it pops, those of each topic."""
        group = self._facts.group
        names = [pop_retry_topic(topic, group, version) for topic in topics for version in (RETRY, RETRY_V2)]
        for queues in await asyncio.gather(*map(self._queues, [retry_topic(group), *names])):
            self._facts.retries += queues

    async def _queues(self, topic: str) -> list[QueueFacts]:
        found = []
        for name, answer in (await self._ask_all(self._brokers, GetTopicStats(topic))).items():
            if answer.code != SUCCESS or answer.body is None:
                continue
            for queue, ends in answer.body.offset_table.items():
                place = MessageQueue(topic, name, queue.queue_id)
                one = QueueFacts(place, ends.min_offset, ends.max_offset, self._committed.get(place, -1))
                self._take_owners(one)
                found.append(one)
        return sorted(found, key=lambda one: one.queue)

    def _take_owners(self, one: QueueFacts) -> None:
        """Add what members report about a queue that they have."""
        having = list(self._holdings.of(one.queue))
        if self._facts.is_broadcast:
            # Each member consumes the queue by itself, so it is described as it is at the slowest one.
            having.sort(key=lambda pair: (pair[1].commit_offset, -pair[1].cached))
        one.owners = [member.client_id for member, _ in having]
        reports = [held for _, held in having]
        if self._facts.is_broadcast:
            del reports[1:]
        for held in reports:
            one.cached += held.cached
            one.is_popped = one.is_popped or held.popped
            one.last_pull_ms = max(one.last_pull_ms, held.last_pull_ms)
            one.read_at = max(one.read_at, held.read_at)
        one.consumed = max((held.commit_offset for held in reports), default=-1)
        if not self._facts.is_broadcast:
            one.consumed = max(one.committed, one.consumed)

    # -- messages ------------------------------------------------------------------------------------------------

    async def _messages(self) -> None:
        """Read the messages that block queues, and some of the newest of each topic."""
        facts = self._facts
        async with PullConsumer(TOOLS_GROUP, client=self._client) as reader:
            for queue in [one for one in facts.queues() if one.delivered is not None][:STUCK_MAX]:
                found = await _peeked(reader, queue.queue, 1, max(0, queue.consumed))
                queue.next_message = found[0] if found else None
            filtering = {topic for topic, wanted in facts.subscribed().items() if set(wanted) - ALL_MESSAGES}
            for topic in facts.topics.values():
                if topic.name not in filtering:
                    continue
                full = [one.queue for one in topic.queues if one.end > one.first]
                for place in full[:SAMPLES_MAX]:
                    most = max(1, SAMPLES_MAX // len(full))
                    topic.samples += await _peeked(reader, place, most)


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that may be meant: those that differ only in the namespace, otherwise similar ones."""
    plain = name.rpartition(SEPARATOR)[2]
    same = [one for one in names if one.rpartition(SEPARATOR)[2] == plain]
    return same[:SIMILAR_MAX] or get_close_matches(name, names, SIMILAR_MAX)


def _changed_ms(report: KVTable | AllTopics) -> int:
    """Return the message time at which a broker has started, or its topics have changed; 0 if it isn't reported."""
    if isinstance(report, AllTopics):
        return report.data_version.timestamp
    text = report.table.get("bootTimestamp", "")
    return int(text) if text.isdecimal() and text.isascii() else 0


async def _peeked(
    reader: PullConsumer, queue: MessageQueue, most: int, offset: int | None = None
) -> list[ReceivedMessage]:
    """Return some messages of a queue, the newest unless an offset is given; none if it can't be read."""
    try:
        return await peek_messages(reader, [queue], most, offset=offset, last=offset is None)
    except (BrokerAnswer, NetworkError):
        return []
