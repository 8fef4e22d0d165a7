"""One consumer's share of the queues of its topics. RocketMQ: RebalanceImpl, RebalancePushImpl.

CLUSTERING: sorted queues and sorted members go through the strategy, at every member with the same outcome. The members
are asked of one broker of the topic. Whatever can't be learnt changes nothing: it is tried again a second later.
BROADCASTING: every member has all queues.
"""

import asyncio
from collections.abc import Callable, Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import MASTER_ID, subscribe_queues
from staticfire.client.consume.consumer_state import ConsumerState
from staticfire.client.consume.hooks import RebalanceCall
from staticfire.client.consume.listener_errors import ends_consumer
from staticfire.client.consume.push_settings import MessageModel
from staticfire.client.rebalance.assigned_queues import AssignedQueues
from staticfire.client.rebalance.rebalance_loop import plan_rebalance
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError, StaticfireError, TopicNotFound
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.requests.clients import ConsumerListAnswer, GetConsumerList
from staticfire.protocol.requests.routes import TopicRouteData
from staticfire.runtime.log import logger

log = logger("client")

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""Told of a change: the topic, all its queues, and those that are this consumer's now."""


class Rebalancer:
    """Keeps `held` at what the members of the group agree on."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        held: AssignedQueues,
        listeners: list[QueuesChanged],
    ) -> None:
        """`listeners`: told of each change; more of them may come."""
        self._state = state
        self._group = state.group
        self._client = client
        self._settings = state.settings
        self._subscriptions = state.subscriptions
        self._held = held
        self._listeners = listeners
        self._missing: set[str] = set()  # Topics without a route that have been told of. Never iterated.
        self._round = asyncio.Lock()
        # A round waits for answers between looking and changing: two at once would take a queue twice.

    async def rebalance(self) -> bool:
        """Bring the queues of all topics up to date; return whether everything could be done."""
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
            assigned = await self._assigned(topic, route, queues)
        except TopicNotFound as error:
            if topic not in self._missing and not is_retry_topic(topic):
                self._missing.add(topic)
                log.warning("topic_has_no_route", group=self._group, topic=topic, reason=error.remark)
            return False
        except StaticfireError as error:
            if self._held.is_over:
                return False  # Asked while the goodbye was under way: RocketMQ answers that there is no such group.
            log.warning("topic_not_rebalanced", group=self._group, topic=topic, reason=str(error))
            return False
        except BaseException as error:
            if ends_consumer(error):
                raise
            # It is a strategy of the program's: other topics go on.
            log.error("strategy_failed", group=self._group, topic=topic, error=repr(error))
            return False
        if topic not in self._subscriptions.by_topic:
            return True
        return await self._carry_out(topic, queues, assigned)

    async def _route(self, topic: str) -> TopicRouteData:
        """Return a topic's route, which a producer may only have guessed. Raises: TopicNotFound, NetworkError."""
        routes = self._client.routes
        return await (routes.fetch(topic) if topic in routes.guessed else routes.route(topic))

    async def _assigned(self, topic: str, route: TopicRouteData, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return this consumer's queues. Raises: StaticfireError, and whatever a strategy raises."""
        if self._settings.message_model is MessageModel.BROADCASTING:
            return queues
        members = await self._members(topic, route)
        strategy = self._settings.allocate_strategy
        return strategy.allocate(self._group, self._client.client_id, queues, members)

    async def _members(self, topic: str, route: TopicRouteData) -> list[str]:
        """Return the sorted client ids of the group. Raises: StaticfireError."""
        brokers = sorted(route.broker_datas, key=lambda broker: broker.broker_name)
        if not brokers:
            raise ClientError(f"the route of {topic} names no broker")
        replicas = brokers[self._client.machine.clock.wall_ms() % len(brokers)].broker_addrs
        address = replicas.get(MASTER_ID) or next(iter(replicas.values()))
        request = GetConsumerList(consumer_group=self._group)
        answer = await self._client.pool.ask(address, request, self._client.settings.mq_client_api_timeout_ms)
        if answer.code != SUCCESS or not isinstance(answer, ConsumerListAnswer) or answer.body is None:
            raise ClientError(f"{address} doesn't tell the members of {self._group}: {answer.remark}")
        return sorted(set(answer.body.consumer_id_list))

    async def _carry_out(self, topic: str, queues: list[MessageQueue], assigned: list[MessageQueue]) -> bool:
        """Drop and take what has to be; return whether all of it could be taken."""
        uptime_ms = self._client.machine.clock.uptime_ms()
        plan = plan_rebalance(self._held.last_pulls(topic), assigned, uptime_ms, self._settings.pull_idle_ms_max)
        if not plan.drop and not plan.take:
            return True
        call = RebalanceCall(self._group, topic, queues, self._owned(topic))
        call.dropped, call.taken = plan.drop, plan.take
        self._state.hooks.call("before_rebalance", call)
        await self._held.drop(plan.drop)
        taken = await self._held.take(plan.take)
        if plan.drop or taken:
            self._tell(topic, queues, assigned)
        call.owned = self._owned(topic)
        call.taken = [queue for queue in plan.take if queue in call.owned]
        self._state.hooks.call("after_rebalance", call)
        return taken == len(plan.take)

    def _owned(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self._held.queues if queue.topic == topic]

    async def _drop_unsubscribed(self) -> None:
        gone = [queue for queue in self._held.queues if queue.topic not in self._subscriptions.by_topic]
        if gone:
            topics = dict.fromkeys(queue.topic for queue in gone)
            calls = {topic: RebalanceCall(self._group, topic, [], self._owned(topic)) for topic in topics}
            for call in calls.values():
                call.dropped = call.owned
                self._state.hooks.call("before_rebalance", call)
            await self._held.drop(gone)
            for topic, call in calls.items():
                self._tell(topic, [], [])
                call.owned = self._owned(topic)
                self._state.hooks.call("after_rebalance", call)

    def _tell(self, topic: str, queues: Sequence[MessageQueue], assigned: Sequence[MessageQueue]) -> None:
        self._state.flow.share(len(self._held))
        for listener in self._listeners:
            try:
                listener(topic, list(queues), list(assigned))
            except BaseException as error:
                if ends_consumer(error):
                    raise
                log.error("queues_listener_failed", group=self._group, topic=topic, error=repr(error))
