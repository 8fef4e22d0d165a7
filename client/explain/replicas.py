"""Queries what the replicas of brokers have of a group's queues. Costs nothing for brokers without slaves."""

import asyncio

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.replica_choice import (
    Replicas,
    masters_among,
    none_found,
    readers_among,
    replicas_of,
    slaves_among,
)
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.explain.facts import GroupFacts, ReplicaFacts
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import ClientError, NetworkError
from staticfire.protocol.java_properties import read_properties
from staticfire.protocol.names import group_of_topic
from staticfire.protocol.requests.config import GetBrokerConfig
from staticfire.protocol.requests.locks import MessageQueue as WireQueue
from staticfire.protocol.requests.statistics import GetConsumeStats, GetTopicStats

# RocketMQ's setting, and its default.
READABLE = "slaveReadEnable"


async def read_replicas(admin: Admin, facts: GroupFacts) -> Replicas:
    """Return the replicas of all brokers, and add them to the facts. Raises: ClientError (there are no brokers)."""
    info = await admin.cluster_info()
    replicas = replicas_of(info)
    facts.addresses = readers_among(replicas)
    if not facts.addresses:
        raise ClientError(none_found(info, None, None, str(admin.client.nameservers.chosen)))
    facts.slaves = slaves_among(replicas)
    masters = masters_among(replicas)
    facts.masterless = [name for name in facts.slaves if name not in masters]
    return replicas


async def topics_at_slaves(client: ClusterClient, facts: GroupFacts, timeout_ms: int) -> list[str]:
    """Return the topics that slaves have offsets of: a master may have come back without them."""
    comparing = _Comparing(client, facts, timeout_ms)
    places = [at for slaves in facts.slaves.values() for at in slaves.values()]
    found = await asyncio.gather(*map(comparing.committed, places))
    names = {place.topic for table in found for place in table}
    return sorted(name for name in names if group_of_topic(name) is None)


async def compare_replicas(client: ClusterClient, replicas: Replicas, facts: GroupFacts, timeout_ms: int) -> None:
    """Add where each replica's queues end, and the group's offsets there."""
    if facts.slaves:
        comparing = _Comparing(client, facts, timeout_ms)
        await asyncio.gather(
            *(
                comparing.replica(name, broker_id, at)
                for name in facts.slaves
                for broker_id, at in replicas[name].items()
            ),
            *(comparing.readable(name) for name in facts.masterless),
        )


class _Comparing:
    """The requests to the replicas of brokers that have slaves."""

    def __init__(self, client: ClusterClient, facts: GroupFacts, timeout_ms: int) -> None:
        self._client = client
        self._facts = facts
        self._timeout_ms = timeout_ms

    async def _ask(self, address: str, request: Request) -> Answer | None:
        try:
            answer = await self._client.pool.ask(address, request, self._timeout_ms)
        except NetworkError:
            return None
        return answer if answer.code == SUCCESS and answer.body is not None else None

    async def replica(self, broker_name: str, broker_id: int, address: str) -> None:
        """Add one replica to the facts about its broker's queues."""
        queues = [queue for queue in self._facts.queues() if queue.queue.broker_name == broker_name]
        committed = await self.committed(address) if queues else {}
        for topic in dict.fromkeys(queue.queue.topic for queue in queues):
            stats = await self._ask(address, GetTopicStats(topic))
            ends = {} if stats is None else stats.body.offset_table
            for queue in queues:
                place = WireQueue(*queue.queue)
                if queue.queue.topic == topic and place in ends:
                    queue.replicas[broker_id] = ReplicaFacts(ends[place].max_offset, committed.get(place, -1))

    async def committed(self, address: str) -> dict[WireQueue, int]:
        """Return the group's offsets at one replica."""
        stats = await self._ask(address, GetConsumeStats(self._facts.group))
        table = {} if stats is None else stats.body.offset_table
        return {place: offset.consumer_offset for place, offset in table.items()}

    async def readable(self, broker_name: str) -> None:
        """Note whether the slave that consumers use refuses pulls."""
        broker_id, address = next(iter(self._facts.slaves[broker_name].items()))
        answer = await self._ask(address, GetBrokerConfig())
        if answer is not None and read_properties(answer.body.decode()).get(READABLE) == "false":
            self._facts.unreadable[broker_name] = broker_id
