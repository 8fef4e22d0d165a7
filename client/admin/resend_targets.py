"""Where dead letters are sent again: to their original topic, to another one, or only to their group.

In a topic, a letter goes to the queue of its first record, if that is on the same broker; otherwise `fitting_queue`
chooses one. To the group only, it goes to the retry topic on the broker that stores the letter, if the group reads
that: simple consumers and gRPC clients don't. To find out whether it was sent there before, that broker is queried for
records with the same unique id.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from staticfire.client.admin.connections import consumer_connections
from staticfire.client.admin.dead_letters import DeadLetter
from staticfire.client.admin.resending import fitting_queue, is_resent_from
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import publish_queues
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, TopicNotFound, UsageError, broker_answer
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

if TYPE_CHECKING:
    from staticfire.client.admin.admin import Admin

SAME_KEY_MAX = 32
ANY_QUEUE = -1
"""The broker chooses the queue."""


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
            same = await self._same_messages(letter, queue.topic, near)
        else:
            queues = await self._queues_of(topic)
            same = await self._same_messages(letter, topic, near)
            first = MessageQueue(topic, near, same[0].queue_id) if same else None
            queue = fitting_queue(letter, queues, first)
            if queue.broker_name != near:
                same = await self._same_messages(letter, topic, queue.broker_name)
        return topic, None if once and any(is_resent_from(record, letter) for record in same) else queue

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the queues of an existing topic; it isn't created here. Raises: TopicNotFound, NetworkError."""
        queues = self._queues.get(topic)
        if queues is None:
            queues = publish_queues(topic, await self._client.routes.fetch(topic))
            if not queues:
                words = f"{topic} has no writable queue: check its permission and its brokers"
                raise broker_answer(ResponseCode.NO_PERMISSION, words)
            self._queues[topic] = queues
        return queues

    async def _same_messages(self, letter: DeadLetter, topic: str, broker_name: str) -> list[StoredRecord]:
        """Return a broker's records of a topic that are the same message, oldest first, as far as it still has them."""
        unique_id = letter.message.get(UNIQ_KEY)
        if unique_id is None:
            return []
        request = QueryMessage(topic, unique_id, SAME_KEY_MAX, 0, INT64_MAX, True, bname=broker_name)
        answer = await self._client.ask_broker(MessageQueue(topic, broker_name, 0), request, self._admin.timeout_ms)
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

    async def other_groups(self, topics: Iterable[str]) -> list[str]:
        """Return the other groups that consume these topics, sorted; none for letters sent only to this group."""
        if self._only_group:
            return []
        found: set[str] = set()
        for topic in topics:
            try:
                route = await self._client.routes.route(topic)
            except TopicNotFound:
                continue
            for broker in route.broker_datas:
                for address in broker.broker_addrs.values():
                    answer = await self._client.pool.ask(address, QueryGroupsOfTopic(topic), self._admin.timeout_ms)
                    if answer.code == SUCCESS and answer.body is not None:
                        found.update(answer.body.group_list)
        return sorted(group for group in found if group != self._group and not is_system_group(group))
