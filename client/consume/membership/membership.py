"""The start and the end of a consumer, of any kind. RocketMQ: MQConsumerInner.

After it has joined, the group's members and every broker know it, and it has its share of the queues and pulls. After
it has left, its offsets are stored, and the brokers have removed it and notified the other members.
"""

import asyncio
from collections.abc import Awaitable

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import check_conditions
from staticfire.client.cluster.heartbeats import DescribeConsumer
from staticfire.client.consume.membership.admin_requests import AdministeredConsumer, AdminRequests
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.rebalance_loop import Rebalanced, RebalanceLoop
from staticfire.client.consume.membership.version_adoption import VersionAdoption
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.names import DEFAULT_CONSUMER_GROUP, group_fault
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.routes import TopicRouteData
from staticfire.runtime.sampled_counter import SAMPLE_MS
from staticfire.runtime.service import Service


class Membership:
    """The membership of one consumer, from its start to its end."""

    def __init__(
        self,
        service: Service,
        client: ClusterClient,
        state: ConsumerState,
        held: AssignedQueues,
        offsets: OffsetStore,
        sharing: Rebalanced,
    ) -> None:
        """`service`: runs its loops. `sharing`: keeps the owned queues (`held`) up to date."""
        self._service = service
        self._client = client
        self._state = state
        self._held = held
        self._offsets = offsets
        self._sharing = sharing
        self._is_joined = False

    async def join(self, describe: DescribeConsumer, admin: AdministeredConsumer) -> None:
        """Load offsets, register with every broker, take this member's share of the queues, and pull.

        `admin`: serves administrators' requests. Raises: ClientError (this client has a consumer of this group already,
        or a broker doesn't filter by a condition), NetworkError.
        """
        client, group = self._client, self._state.group
        await self._offsets.load()
        await self._held.starts.begin()
        adoption = VersionAdoption(self._state, self._held, self._sharing, self._service.spawn)

        def stamped() -> ConsumerData:
            self._state.subscriptions.stamp(client.version_ms())
            return describe()

        client.join_consumers(group, stamped, adoption.take_news)
        self._is_joined = True
        AdminRequests.of(client).consumers[group] = admin
        await self._fetch_routes()
        await check_conditions(client, group, self._state.wanted.values())
        await client.announce()
        # A change of the members during the first round is in the next one: the loop knows this consumer by then.
        loop = RebalanceLoop.of(client)
        loop.add(group, self._sharing)
        if not await self._sharing.rebalance():
            loop.wake()
        client.routes.listeners.append(self._route_changed)
        client.broker_connected.append(self._connected)
        self._service.spawn(self._persist_loop(), f"offsets of {group}")
        self._service.spawn(self._sample_loop(), f"statistics of {group}")

    def stop_pulling(self) -> None:
        """Stop taking and pulling queues. Allowed if it has never joined."""
        client, group = self._client, self._state.group
        self._held.stop_pulling()
        if self._is_joined:
            AdminRequests.of(client).consumers.pop(group, None)
            RebalanceLoop.of(client).remove(group)
            if self._connected in client.broker_connected:
                client.broker_connected.remove(self._connected)
            if self._route_changed in client.routes.listeners:
                client.routes.listeners.remove(self._route_changed)

    def leave(self) -> Awaitable[object]:
        """Unregister from the brokers now. The result can be awaited: it ends with their responses."""
        self._held.detach()
        if not self._is_joined:
            return asyncio.gather()
        self._is_joined = False
        return self._client.unregister_consumers(self._state.group)

    def try_again(self) -> None:
        """Rebalance soon: not everything could be done."""
        RebalanceLoop.of(self._client).wake()

    def subscriptions_changed(self) -> None:
        """Inform every broker, rebalance, and pull the queues that paused because their topic wasn't subscribed."""
        if self._is_joined:
            self._client.send_heartbeats()
            RebalanceLoop.of(self._client).wake()
            self._held.resume()

    async def _fetch_routes(self) -> None:
        """Fetch the routes of the topics. Raises: NetworkError if no nameserver responds."""
        routes = [self._client.routes.fetch(topic) for topic in self._state.wanted]
        for outcome in await asyncio.gather(*routes, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, BrokerAnswer):
                # The rebalance reports a missing topic: it may be created later.
                raise outcome

    def _route_changed(self, topic: str, _: TopicRouteData) -> None:
        if topic in self._state.wanted:
            RebalanceLoop.of(self._client).wake()

    def _connected(self, _: str) -> None:
        """Compare offsets with a broker that is connected again; before that, none are stored there."""
        self._service.spawn(self._held.persist(), f"offsets of {self._state.group}")

    async def _persist_loop(self) -> None:
        pause_ms = self._state.settings.persist_first_ms
        while True:
            await self._service.pause_for(pause_ms)
            await self._held.persist()
            pause_ms = self._state.settings.persist_interval_ms

    async def _sample_loop(self) -> None:
        while True:
            await self._service.pause_for(SAMPLE_MS)
            self._state.statistics.sample(self._client.machine.clock.uptime_ms())


def checked_group(group: str) -> str:
    """Check the name of a consumer group, and return it. Raises: ClientError."""
    fault = group_fault(group)
    if fault is not None or group == DEFAULT_CONSUMER_GROUP:
        raise ClientError(fault or f"consumer group {group} belongs to RocketMQ: choose another name")
    return group
