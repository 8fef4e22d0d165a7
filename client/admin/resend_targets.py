"""Where dead letters are sent again: to their original topic, to another one, or only to their group.

In a topic, a letter goes to the queue of its first record, if that is on the same broker; otherwise `fitting_queue`
chooses one. To the group only, it goes to the retry topic on the broker that stores the letter, if the group reads
that: simple consumers and gRPC clients don't. To find out whether it was sent before, brokers are queried for records
with the same unique id: in the place where it goes now, in its original topic, and in the retry topic.
"""

import asyncio
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from staticfire.client.admin.connections import consumer_connections
from staticfire.client.admin.dead_letters import DeadLetter
from staticfire.client.admin.replica_choice import reader_of
from staticfire.client.admin.resending import fitting_queue, is_resent_from
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import publish_queues
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import (
    BrokerAnswer,
    ClientError,
    NetworkError,
    NoMaster,
    StaticfireError,
    TopicNotFound,
    UsageError,
    broker_answer,
)
from staticfire.protocol.names import (
    is_dead_letter_topic,
    is_retry_topic,
    is_system_group,
    may_be_sent_to,
    retry_topic,
    topic_fault,
)
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.properties import FIRST_POP_TIME, UNIQ_KEY, find_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.connections import GetConsumerRunningInfo, QueryGroupsOfTopic
from staticfire.protocol.requests.queries import QueryMessage
from staticfire.protocol.requests.routes import MASTER_ID

if TYPE_CHECKING:
    from staticfire.client.admin.admin import Admin

SAME_KEY_MAX = 32
ANY_QUEUE = -1
"""The broker chooses the queue."""


class OtherGroups(NamedTuple):
    """The groups that also get what was sent."""

    names: list[str]
    unknown: list[str]
    """Why there may be more: `broker-b: no response`."""


class ResendTargets:
    """Chooses the queue for each letter of one resend."""

    def __init__(self, admin: "Admin", group: str, to: str | None, only_group: bool) -> None:
        """`to`: a topic to use instead of the letters' own. `only_group`: use the group's retry topic."""
        self._admin = admin
        self._client = admin.client
        self._group = group
        self._to = to
        self._only_group = only_group
        self._queues: dict[str, list[MessageQueue]] = {}
        self._brokers: dict[str, set[str]] = {}
        """The brokers that have a topic, whether it is writable there or not."""
        self._members_read_retries = False

    async def check(self) -> None:
        """Raise UsageError or ClientError if the request isn't possible for any letter."""
        if self._to is not None and self._only_group:
            raise UsageError("resend: choose either another topic (to) or this group only (only_group)")
        if self._to is not None:
            fault = topic_fault(self._to)
            if fault is None and (is_retry_topic(self._to) or is_dead_letter_topic(self._to)):
                fault = "it belongs to a group; to resend to this group only, use only_group"
            if fault is None and not may_be_sent_to(self._to):
                fault = "it is RocketMQ's own"
            if fault is not None:
                raise ClientError(f"{self._to!r} can't be the target: {fault}")
            await self._queues_of(self._to)
        if self._only_group:
            await self._check_group()

    async def _check_group(self) -> None:
        """Raise ClientError if members are online to which nothing can be sent through the retry topic."""
        readers = await self._admin.readers()
        connections = await consumer_connections(self._client.pool, readers, self._group, self._admin.timeout_ms)
        members = sorted({member.client_id for one in connections for member in one.connection_set})
        if await self._consumes_in_order(members):
            raise ClientError(
                f"{self._group} consumes in order: brokers move messages of its retry topic to the dead letters at "
                "once. Resend to the topic (without only_group), or while no member is online"
            )
        self._members_read_retries = any(retry_topic(self._group) in one.subscription_table for one in connections)
        if members and not self._members_read_retries:
            raise ClientError(
                f"no member of {self._group} reads {retry_topic(self._group)}: simple consumers and gRPC clients "
                "don't. Resend to the topic (without only_group)"
            )

    async def target(self, letter: DeadLetter, once: bool) -> tuple[str, MessageQueue | None]:
        """Return the topic that listeners will see, and the queue; with `once`, None if it was sent there before.

        Raises: ClientError, TopicNotFound (it stays where it is), UsageError (the whole resend makes no sense),
        NetworkError, BrokerAnswer.
        """
        topic = self._to or letter.origin_topic
        if topic is None:
            raise ClientError(f"{letter.id} doesn't contain its original topic: give a topic (to=..., --to TOPIC)")
        near = letter.place.broker_name
        if self._only_group:
            if not self._members_read_retries and letter.message.get(FIRST_POP_TIME) is not None:
                raise UsageError(
                    f"it was popped, and no member that reads {retry_topic(self._group)} is online: resend to the "
                    "topic (without only_group), or start a push consumer before"
                )
            queue = MessageQueue(retry_topic(self._group), near, ANY_QUEUE)
            same = await self._same_messages(letter, queue, once)
        else:
            queue, same = await self._queue_of(letter, topic, once)
        if once and (_has_copy(same, letter) or await self._was_sent_elsewhere(letter, queue.topic)):
            return topic, None
        return topic, queue

    async def _queue_of(self, letter: DeadLetter, topic: str, once: bool) -> tuple[MessageQueue, list[StoredRecord]]:
        """Return the queue of a topic for a letter, and the records of its broker that are the same message."""
        queues = await self._queues_of(topic)
        near = letter.place.broker_name
        others = self._brokers[topic] - {near} if once else set()
        same, *copies = await self._copies_at(letter, topic, [near, *sorted(others)], must_know=once)
        first = MessageQueue(topic, near, same[0].queue_id) if same else None
        return fitting_queue(letter, queues, first), [*same, *chain.from_iterable(copies)]

    async def _copies_at(
        self, letter: DeadLetter, topic: str, brokers: Iterable[str], must_know: bool
    ) -> list[list[StoredRecord]]:
        """Return the records of a topic on each of these brokers that are the same message; all are queried at once.

        An earlier resend may have chosen any of them: the topic's route and permissions may have changed since then.
        Raises: as `_same_messages`.
        """
        places = [MessageQueue(topic, name, 0) for name in brokers]
        looks = (self._same_messages(letter, place, must_know) for place in places)
        found: list[list[StoredRecord]] = []
        for result in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            found.append(result)
        return found

    async def _was_sent_elsewhere(self, letter: DeadLetter, topic: str) -> bool:
        """Return whether a letter was sent to its original topic or to the retry topic, and not now to `topic`.

        An earlier resend that went there stored no progress for it if it left a letter before it. Places that can't be
        looked up don't count: a user who may send to one topic may not be permitted to read the others.
        """
        origin, retries = letter.origin_topic, retry_topic(self._group)
        try:
            if origin is not None and origin != topic:
                copies = await self._copies_at(letter, origin, sorted(await self._brokers_of(origin)), must_know=False)
                if any(_has_copy(same, letter) for same in copies):
                    return True
        except (BrokerAnswer, ClientError):
            pass
        if retries == topic:
            return False
        return _has_copy(
            await self._same_messages(letter, MessageQueue(retries, letter.place.broker_name, 0), False), letter
        )

    async def _brokers_of(self, topic: str) -> set[str]:
        """Return the brokers that have a topic, writable or not. Raises: BrokerAnswer, ClientError, NetworkError."""
        if topic not in self._brokers:
            try:
                route = await self._client.routes.fetch(topic)
                self._brokers[topic] = {broker.broker_name for broker in route.broker_datas}
            except TopicNotFound:
                self._brokers[topic] = set()
        return self._brokers[topic]

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the queues of an existing topic; it isn't created here.

        Raises: TopicNotFound, NoMaster, ClientError (it accepts no messages), NetworkError.
        """
        queues = self._queues.get(topic)
        if queues is None:
            route = await self._client.routes.fetch(topic)
            queues = publish_queues(topic, route)
            self._brokers[topic] = {broker.broker_name for broker in route.broker_datas}
            if not queues:
                is_served = any(MASTER_ID in broker.broker_addrs for broker in route.broker_datas)
                words = f"{topic} has no writable queue: check its permission and its brokers"
                raise (ClientError if is_served else NoMaster)(words)
            self._queues[topic] = queues
        return queues

    async def _same_messages(self, letter: DeadLetter, queue: MessageQueue, must_know: bool) -> list[StoredRecord]:
        """Return the records of a topic on a queue's broker that are the same message, oldest first.

        Raises: BrokerAnswer (refused, and `must_know` is True), NetworkError.
        """
        unique_id = letter.message.message_id
        request = QueryMessage(queue.topic, unique_id, SAME_KEY_MAX, 0, INT64_MAX, True, bname=queue.broker_name)
        answer = await self._client.ask_broker(queue, request, self._admin.timeout_ms)
        if must_know and answer.code not in (SUCCESS, ResponseCode.QUERY_NOT_FOUND):
            words = f"look up whether {letter.id} was sent to {queue.topic} on {queue.broker_name}"
            raise broker_answer(answer.code, answer.remark, words)
        if answer.code != SUCCESS or answer.body is None:
            return []
        records: list[StoredRecord] = answer.body.records
        return [record for record in records if find_property(record.properties, UNIQ_KEY) == unique_id.encode()]

    async def _consumes_in_order(self, members: Iterable[str]) -> bool:
        """Return whether a member of the group reports that it is ordered. Silent members don't count.

        `members`: their client ids.
        """
        masters = await self._admin.masters()
        for member in members:
            for address in masters.values():
                request = GetConsumerRunningInfo(self._group, member)
                answer = await self._client.pool.ask(address, request, self._admin.timeout_ms)
                if answer.code == SUCCESS and answer.body is not None:
                    in_order: bool = answer.body.properties.get("PROP_CONSUMEORDERLY") == "true"
                    return in_order
        return False

    async def other_groups(self, topics: Iterable[str]) -> OtherGroups:
        """Return the other groups that consume these topics, sorted; none for letters sent only to this group."""
        found: set[str] = set()
        unknown: dict[str, str] = {}
        for topic in () if self._only_group else topics:
            try:
                route = await self._client.routes.route(topic)
            except StaticfireError as error:
                unknown[topic] = str(error)
                continue
            for broker in route.broker_datas:
                try:
                    found.update(await self._groups_at(reader_of(broker.broker_addrs), topic))
                except (BrokerAnswer, NetworkError) as error:
                    unknown[broker.broker_name] = str(error)
        others = sorted(group for group in found if group != self._group and not is_system_group(group))
        return OtherGroups(others, [f"{name}: {words}" for name, words in sorted(unknown.items())])

    async def _groups_at(self, address: str, topic: str) -> list[str]:
        """Return the groups that consume a topic, as one broker knows them. Raises: BrokerAnswer, NetworkError."""
        answer = await self._client.pool.ask(address, QueryGroupsOfTopic(topic), self._admin.timeout_ms)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"groups of {topic}")
        return [] if answer.body is None else [*answer.body.group_list]


def _has_copy(records: Iterable[StoredRecord], letter: DeadLetter) -> bool:
    """Return whether one of these records is the letter sent again."""
    return any(is_resent_from(record, letter) for record in records)
