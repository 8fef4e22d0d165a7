"""Queries brokers which queues a member has. RocketMQ: MQClientAPIImpl.queryAssignment, RebalanceImpl.

Each member queries one broker of the topic. The response also states whether the queues are popped or pulled. If a
broker doesn't support this request, the members share the queues by themselves.

An empty response doesn't state the mode. A member gets one only if the queues are pulled, and there are more members
than queues. But a client that the broker doesn't know as a member yet gets one, too, whatever the mode is.
"""

from typing import NamedTuple

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.assignment import (
    MODE_POP,
    AssignmentAnswer,
    AssignmentQuestion,
    QueryAssignment,
)
from staticfire.protocol.requests.clients import ConsumerListAnswer, GetConsumerList
from staticfire.protocol.requests.routes import MASTER_ID, TopicRouteData
from staticfire.runtime.log import logger

log = logger("client")


class Share(NamedTuple):
    """A member's queues of a topic."""

    queues: list[MessageQueue]
    is_popped: bool | None = False
    """None if it isn't known: the broker doesn't know the member yet."""


class ServerAssignment:
    """The queries of one consumer."""

    def __init__(self, group: str, client: ClusterClient, settings: PushSettings) -> None:
        self._group = group
        self._client = client
        self._settings = settings
        # Brokers that a warning was logged for. Never iterated.
        self._unable: set[str] = set()

    async def ask(self, topic: str, route: TopicRouteData) -> Share | None:
        """Return this member's share; None if the members must compute it. Raises: StaticfireError."""
        address = any_broker(topic, route, self._client.machine.clock.wall_ms())
        share = await self._ask(address, topic)
        if share is None or share.queues:
            return share
        if self._client.client_id not in await members_of(self._group, self._client, address):
            return Share([], None)
        return await self._ask(address, topic)  # The first response may be from before the broker knew this member.

    async def _ask(self, address: str, topic: str) -> Share | None:
        settings = self._settings
        question = AssignmentQuestion(
            topic, settings.message_model.value, self._group, self._client.client_id, settings.allocate_strategy.name
        )  # fmt: skip
        request = QueryAssignment(body=question)
        answer = await self._client.pool.ask(address, request, self._client.settings.mq_client_api_timeout_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            if address not in self._unable:
                self._unable.add(address)
                log.warning(
                    "assignment_unknown", group=self._group, broker=address, reason="members assign queues themselves"
                )
            return None
        body = answer.body if isinstance(answer, AssignmentAnswer) else None
        if answer.code != SUCCESS or body is None or body.message_queue_assignments is None:
            strategy = settings.allocate_strategy.name
            reason = answer.remark or f"no result for strategy {strategy}, or no member is online"
            raise ClientError(f"{address} doesn't return the queues of {topic} for {self._group}: {reason}")
        assigned = body.message_queue_assignments
        queues = {MessageQueue(q.topic, q.broker_name, q.queue_id) for q in (one.message_queue for one in assigned)}
        return Share(sorted(queues), any(one.mode == MODE_POP for one in assigned))


async def members_of(group: str, client: ClusterClient, address: str) -> list[str]:
    """Return the sorted client ids of a group, from one broker. Raises: StaticfireError."""
    request = GetConsumerList(consumer_group=group)
    answer = await client.pool.ask(address, request, client.settings.mq_client_api_timeout_ms)
    if answer.code != SUCCESS or not isinstance(answer, ConsumerListAnswer) or answer.body is None:
        raise ClientError(f"{address} doesn't return the members of {group}: {answer.remark}")
    return sorted(set(answer.body.consumer_id_list))


def any_broker(topic: str, route: TopicRouteData, turn: int) -> str:
    """Return the address of a broker of a topic, which varies with `turn`. Raises: ClientError (there is none).

    A slave is queried only if no broker has a master: if its disk is new, it doesn't know yet which groups pop, and its
    answer would let this member pull for a moment.
    """
    brokers = sorted(route.broker_datas, key=lambda broker: broker.broker_name)
    if not brokers:
        raise ClientError(f"the route of {topic} has no broker")
    with_master = [broker for broker in brokers if MASTER_ID in broker.broker_addrs] or brokers
    replicas = with_master[turn % len(with_master)].broker_addrs
    return replicas.get(MASTER_ID) or next(iter(replicas.values()))
