"""One consumer's share of the queues of its topics. RocketMQ: RebalanceImpl, RebalancePushImpl.

CLUSTERING: the strategy gets the sorted queues and the sorted members, so every member computes the same result. The
list of members comes from one broker of the topic. If a request fails, nothing changes, and it is tried again a second
later. BROADCASTING: every member has all queues. With client_rebalance=False brokers assign the queues
(server_assignment.py), and decide whether they are popped. If they aren't, the retries of messages that were popped
before are pulled, too.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.program_errors import ends_consumer
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import subscribe_queues
from staticfire.client.cluster.subscriptions import Subscription
from staticfire.client.consume.membership.assigned_queues import AssignedQueues
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop, plan_rebalance
from staticfire.client.consume.membership.server_assignment import ServerAssignment, Share, any_broker, members_of
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.results.hooks import RebalanceCall
from staticfire.client.settings.push_settings import MessageModel
from staticfire.protocol.errors import StaticfireError, TopicNotFound
from staticfire.protocol.names import is_retry_topic, pop_retry_topic
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.routes import TopicRouteData
from staticfire.protocol.tags import EVERY_TAG
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("client")

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""Called after a change, with the topic, all its queues, and those that this consumer owns now."""


def with_plain_names(listener: QueuesChanged, namespace: Namespace) -> QueuesChanged:
    """Return a listener that is called with the topics' plain names."""
    if not namespace.name:
        return listener
    plain = namespace.unwrapped

    def report(topic: str, queues: list[MessageQueue], owned: list[MessageQueue]) -> None:
        listener(namespace.unwrap(topic), list(map(plain, queues)), list(map(plain, owned)))

    return report


class OwnedQueues(Protocol):
    """The queues that a consumer pulls, or those that it pops."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues in it, sorted."""

    def last_pulls(self, topic: str) -> dict[MessageQueue, UptimeMs]:
        """Return when each queue of a topic was last pulled or popped."""

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Start to consume queues. Return how many could be taken."""

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Give queues away."""


class Rebalancer:
    """Keeps `held` as the group's members agree, or `held` and `popped` as brokers assign."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        held: AssignedQueues,
        listeners: list[QueuesChanged],
        popped: OwnedQueues | None = None,
    ) -> None:
        """`listeners`: called after each change; more may be added. `popped`: set if brokers assign the queues."""
        self._state = state
        self._group = state.group
        self._client = client
        self._settings = state.settings
        self._subscriptions = state.subscriptions
        self._held = held
        self._tables: list[OwnedQueues] = [held] if popped is None else [held, popped]
        self._brokers = None if popped is None else ServerAssignment(state.group, client, state.settings)
        self._listeners = listeners
        # Topics without a route that a warning was logged for. Never iterated.
        self._missing: set[str] = set()
        # A round waits for responses before it changes anything: two rounds at once would take a queue twice.
        self._round = asyncio.Lock()

    async def rebalance(self) -> bool:
        """Update the queues of all topics. Return whether everything could be done."""
        async with self._round:
            if self._state.is_suspended:
                return True
            topics = list(self._subscriptions.by_topic)
            done = await asyncio.gather(*map(self._rebalance_topic, topics))
            await self._drop_unsubscribed()
            return all(done)

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            route = await self._route(topic)
            self._missing.discard(topic)
            queues = subscribe_queues(topic, route)
            share = await self._share(topic, route, queues)
        except TopicNotFound as error:
            if topic not in self._missing and not is_retry_topic(topic):
                self._missing.add(topic)
                log.warning("topic_has_no_route", group=self._group, topic=topic, reason=error.remark)
            return topic in self._state.own_topics  # Most topics have no retry topic of their own.
        except StaticfireError as error:
            if self._held.is_over:
                # The request was sent while the consumer was leaving: RocketMQ responds that there is no such group.
                return False
            log.warning("topic_not_rebalanced", group=self._group, topic=topic, reason=str(error))
            return False
        except BaseException as error:
            if ends_consumer(error):
                raise
            # The program's own strategy failed; the other topics continue.
            log.error("strategy_failed", group=self._group, topic=topic, error=repr(error))
            return False
        if topic not in self._subscriptions.by_topic:
            return True
        if self._brokers is not None and share.is_popped is not None and not is_retry_topic(topic):
            self._pull_own_retries(topic, not share.is_popped)
        done = True
        for table in self._tables:
            assigned = share.queues if (table is self._held) is not share.is_popped else []
            done = await self._carry_out(table, topic, queues, assigned) and done
        return done

    async def _route(self, topic: str) -> TopicRouteData:
        """Return a topic's route; fetch it if it is only a producer's guess. Raises: TopicNotFound, NetworkError."""
        routes = self._client.routes
        return await (routes.fetch(topic) if topic in routes.guessed else routes.route(topic))

    async def _share(self, topic: str, route: TopicRouteData, queues: list[MessageQueue]) -> Share:
        """Return this consumer's queues. Raises: StaticfireError, and whatever a strategy raises."""
        if self._settings.message_model is MessageModel.BROADCASTING:
            return Share(queues)
        if self._brokers is not None:
            share = await self._brokers.ask(topic, route)
            if share is not None:
                return share
        address = any_broker(topic, route, self._client.machine.clock.wall_ms())
        members = await members_of(self._group, self._client, address)
        strategy = self._settings.allocate_strategy
        # The list is complete before any queue moves: reading it can run the program's code, too.
        allocated = list(strategy.allocate(self._group, self._client.client_id, queues, members))
        for queue in allocated:
            if not isinstance(queue, MessageQueue):
                raise TypeError(f"strategy {strategy.name} must return queues, but returned {queue!r}")
        return Share(allocated)

    def _pull_own_retries(self, topic: str, is_wanted: bool) -> None:
        """Subscribe to the retries of popped messages if the topic isn't popped now; otherwise unsubscribe."""
        retries = pop_retry_topic(topic, self._group)
        if is_wanted is (retries in self._subscriptions.by_topic):
            return
        if is_wanted:
            self._state.own_topics[retries] = topic
            self._subscriptions.put(
                Subscription(SubscriptionData(retries, sub_version=self._client.version_ms()), EVERY_TAG)
            )
        else:
            del self._subscriptions.by_topic[retries]
        self._client.send_heartbeats()
        RebalanceLoop.of(self._client).wake()

    async def _carry_out(
        self, table: OwnedQueues, topic: str, queues: list[MessageQueue], assigned: list[MessageQueue]
    ) -> bool:
        """Drop and take queues as planned. Return whether all of them could be taken."""
        uptime_ms = self._client.machine.clock.uptime_ms()
        plan = plan_rebalance(table.last_pulls(topic), assigned, uptime_ms, self._settings.pull_idle_ms_max)
        if not plan.drop and not plan.take:
            return True
        call = RebalanceCall(self._group, topic, queues, self._owned(topic))
        call.dropped, call.taken = plan.drop, plan.take
        self._state.hooks.call("before_rebalance", call)
        await table.drop(plan.drop)
        taken = await table.take(plan.take)
        if plan.drop or taken:
            self._tell(topic, queues, assigned)
        call.owned = self._owned(topic)
        call.taken = [queue for queue in plan.take if queue in call.owned]
        self._state.hooks.call("after_rebalance", call)
        return taken == len(plan.take)

    def _owned(self, topic: str) -> list[MessageQueue]:
        return [queue for table in self._tables for queue in table.queues if queue.topic == topic]

    async def _drop_unsubscribed(self) -> None:
        self._forget_own_retries()
        owned = [queue for table in self._tables for queue in table.queues]
        gone = [queue for queue in owned if queue.topic not in self._subscriptions.by_topic]
        if gone:
            topics = dict.fromkeys(queue.topic for queue in gone)
            calls = {topic: RebalanceCall(self._group, topic, [], self._owned(topic)) for topic in topics}
            for call in calls.values():
                call.dropped = call.owned
                self._state.hooks.call("before_rebalance", call)
            for table in self._tables:
                await table.drop(gone)
            for topic, call in calls.items():
                self._tell(topic, [], [])
                call.owned = self._owned(topic)
                self._state.hooks.call("after_rebalance", call)

    def _forget_own_retries(self) -> None:
        """Unsubscribe from the retries of popped messages if their topic is no longer subscribed."""
        wanted = self._subscriptions.by_topic
        for retries, topic in list(self._state.own_topics.items()):
            if topic not in wanted and wanted.pop(retries, None) is not None:
                self._client.send_heartbeats()

    def _tell(self, topic: str, queues: Sequence[MessageQueue], assigned: Sequence[MessageQueue]) -> None:
        self._state.flow.share(len(self._held))
        for listener in self._listeners:
            try:
                listener(topic, list(queues), list(assigned))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (as in hooks)
                log.error("queues_listener_failed", group=self._group, topic=topic, error=repr(error))
