"""Cached data of the cluster: routes, types of topics, configurations of groups.

It is requested from brokers and nameservers by the client of `client/cluster/` and cached for a second. So a test that
changes a topic or a group sees the change soon, and sends and receives don't need a request each. RocketMQ's proxy
caches it for 20 s. What a client keeps longer, or takes as a refusal, is always new: routes and settings, and the type
of a topic that doesn't accept a message.

What was known before is used if no broker answers in time, or if all refuse to, as RocketMQ's proxy does it: a broker
that is frozen or busy for a moment makes no orderly group concurrent, and calls that concern other brokers don't wait
for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, NamedTuple, TypeVar

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_read, publish_queues, without_master
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer, Request
from staticfire.protocol.errors import (
    ConnectFailed,
    NetworkError,
    StaticfireError,
    TopicNotFound,
    broker_answer,
)
from staticfire.protocol.requests.groups import GetGroupConfig, GroupConfigAnswer, SubscriptionGroupConfig
from staticfire.protocol.requests.routes import MASTER_ID, TopicRouteData
from staticfire.protocol.requests.topics import GetTopicConfig, TopicConfig, TopicConfigAnswer
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.services.background import retrieved
from staticfire.proxy.services.message_types import UNSPECIFIED, check_types, type_of_topic
from staticfire.proxy.services.statuses import StatusError
from staticfire.runtime.log import logger

log = logger("proxy")

BELIEVED_MS = 1_000
PATIENCE_MS = 1_000
"""For how long a call waits for a new response if there is an old one."""
NAMES_MAX = 10_000
"""How many topics, or groups, are cached."""
ANSWER_TIMEOUT_MS = 2_000
"""RocketMQ: the proxy's timeout for all requests except pops."""

_ANSWERS = (SUCCESS, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
"""Another broker, or another moment, wouldn't change these responses. All others are refusals."""

V = TypeVar("V")


class _Fetch(NamedTuple, Generic[V]):
    """A request in flight."""

    task: "asyncio.Task[V]"
    patience_until_ms: int


class Believed(Generic[V]):
    """A cache of responses by name. Concurrent callers with the same name share one request.

    An old response is used until there is a new one: if the request takes longer than PATIENCE_MS, or if it fails.
    Only TopicNotFound is news.
    """

    def __init__(self, ask: Callable[[str], Awaitable[V]], uptime_ms: Callable[[], UptimeMs]) -> None:
        self._ask = ask
        self._uptime_ms = uptime_ms
        self._known: dict[str, tuple[V, int]] = {}
        self._fetches: dict[str, _Fetch[V]] = {}
        self._queued: dict[str, _Fetch[V]] = {}
        """Requests that begin when the one in `_fetches` has ended, because that began before a caller's `get`."""

    async def get(self, name: str, newest: bool = False) -> V:
        """Return the response for a name. Raises: the errors of the request; they aren't cached.

        `newest`: neither a response that is still believed is good enough, nor that to a request that began before:
        the other side may have sent it before a change that the caller knows of.
        """
        known, now_ms = self._known.get(name), self._uptime_ms()
        if known is not None and now_ms < known[1] and not newest:
            return known[0]
        running = self._fetches.get(name)
        if running is None:
            fetch = self._fetches[name] = self._begin(self._fetched(name), now_ms)
        elif not newest:
            fetch = running
        else:
            queued = self._queued.get(name)
            fetch = self._queued[name] = queued or self._begin(self._fetched_after(running.task, name), now_ms)
        if known is None:
            return await asyncio.shield(fetch.task)
        await asyncio.wait([fetch.task], timeout=max(0, fetch.patience_until_ms - now_ms) / 1000)
        return fetch.task.result() if fetch.task.done() else self._known.get(name, known)[0]

    def _begin(self, work: Coroutine[Any, Any, V], now_ms: UptimeMs) -> _Fetch[V]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(retrieved)
        return _Fetch(task, now_ms + PATIENCE_MS)

    def forget(self, name: str) -> None:
        """Remove a name from the cache."""
        self._known.pop(name, None)

    async def close(self) -> None:
        """Cancel the running requests."""
        tasks = [fetch.task for fetch in (*self._fetches.values(), *self._queued.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetched_after(self, running: "asyncio.Task[V]", name: str) -> V:
        await asyncio.wait([running])
        return await self._fetched(name)

    def _end(self, name: str) -> None:
        """Note that the request of a name has ended: the queued one, if there is one, is the next."""
        queued = self._queued.pop(name, None)
        if queued is None:
            del self._fetches[name]
        else:
            self._fetches[name] = queued

    async def _fetched(self, name: str) -> V:
        try:
            answer = await self._ask(name)
        except TopicNotFound:
            raise
        except StaticfireError as error:
            known = self._known.get(name)
            if known is None:
                raise
            log.debug("old_answer_used", name=name, reason=str(error))
            answer = known[0]
        finally:
            self._end(name)
        if len(self._known) >= NAMES_MAX:
            self._known.clear()
        self._known[name] = (answer, self._uptime_ms() + BELIEVED_MS)
        return answer


class KnownCluster:
    """The cluster, as seen by the services."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = client
        uptime_ms = client.machine.clock.uptime_ms
        self._routes = Believed(self._ask_route, uptime_ms)
        self.route = self._routes.get
        """Returns a topic's route. Raises: TopicNotFound, NetworkError."""
        self._topics = Believed(self._ask_topic, uptime_ms)
        self._groups = Believed(self._ask_group, uptime_ms)
        self._silent: set[str] = set()
        """The brokers that didn't answer the last time."""
        self._turns: dict[str, int] = {}
        self._write_queues: dict[str, tuple[TopicRouteData, list[MessageQueue]]] = {}

    async def close(self) -> None:
        """Cancel the running requests."""
        for believed in (self._routes, self._topics, self._groups):
            await believed.close()

    # -- cached data ---------------------------------------------------------------------------------------------

    async def topic_type(self, topic: str, newest: bool = False) -> str:
        """Return the type of a topic's messages, UNSPECIFIED if it can't be determined. RocketMQ: TopicMessageType."""
        try:
            config = await self._topics.get(topic, newest)
        except StaticfireError as error:
            log.debug("topic_type_unknown", topic=topic, reason=str(error))
            return UNSPECIFIED
        return type_of_topic(config.attributes)

    async def check_types(self, topic: str, *kinds: str) -> None:
        """Check that a topic accepts messages of these types. Raises: StatusError."""
        try:
            check_types(topic, await self.topic_type(topic), *kinds)
        except StatusError:
            check_types(topic, await self.topic_type(topic, newest=True), *kinds)

    async def group(self, group: str, newest: bool = False) -> SubscriptionGroupConfig:
        """Return a group's configuration; the default if no broker has one, or if none has ever responded."""
        try:
            return await self._groups.get(group, newest)
        except StaticfireError as error:
            log.debug("group_unknown", group=group, reason=str(error))
            return SubscriptionGroupConfig(group)

    async def write_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic, sorted. Raises: TopicNotFound, NetworkError."""
        route = await self.route(topic)
        made = self._write_queues.get(topic)
        if made is None or made[0] is not route:
            if len(self._write_queues) >= NAMES_MAX:
                self._write_queues.clear()
            made = self._write_queues[topic] = route, publish_queues(topic, route)
        return made[1]

    def turn(self, topic: str, choices: int) -> int:
        """Return the next of `choices` numbers, round robin from a random start. RocketMQ: MessageQueueSelector."""
        if len(self._turns) >= NAMES_MAX:
            self._turns.clear()
        turn = self._turns.get(topic)
        if turn is None:
            turn = self.client.machine.identity.random.randrange(1 << 16)
        self._turns[topic] = turn + 1
        return turn % choices

    def forget(self, topic: str) -> None:
        """Remove a topic from the caches, because something in them is out of date."""
        self._routes.forget(topic)
        self._topics.forget(topic)

    # -- requests ------------------------------------------------------------------------------------------------

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, None if it isn't known."""
        return self.client.routes.addresses.get(broker_name, {}).get(MASTER_ID)

    async def find(self, broker_name: str, topic: str, newest: bool = False) -> str | None:
        """Return the address of a broker's master; if it isn't known, fetch the route of a topic that it has.

        `newest`: fetch the route in any case, because the broker may have another master since a moment ago.
        """
        if newest or self.address(broker_name) is None:
            try:
                await self.route(topic, newest)
            except (TopicNotFound, NetworkError):
                pass  # The broker may be known from other routes.
        return self.address(broker_name)

    async def ask(self, broker_name: str, request: Request, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Answer:
        """Send a request to a broker's master. Raises: NetworkError, ProtocolError."""
        address = self.address(broker_name)
        if address is None:
            raise self._without_master(broker_name)
        return await self.client.pool.ask(address, request, timeout_ms)

    async def tell(self, broker_name: str, topic: str, request: Request) -> None:
        """Send a one-way request to the present master of a broker that has a topic. Raises: StaticfireError.

        A broker that is no longer the master would refuse the request, and no client would learn of it.
        """
        address = await self.find(broker_name, topic, newest=True)
        if address is None:
            raise self._without_master(broker_name)
        await self.client.pool.tell(address, request)

    def _without_master(self, broker_name: str) -> ConnectFailed:
        return ConnectFailed(without_master(broker_name, self.client.routes.addresses.get(broker_name, {})))

    async def _ask_route(self, topic: str) -> TopicRouteData:
        try:
            return await self.client.routes.fetch(topic, newest=True)
        except NetworkError:
            known = self.client.routes.known(topic)
            if known is None:
                raise
            return known  # The nameserver is down, but the brokers and the last route are still there.

    async def _ask_topic(self, topic: str) -> TopicConfig:
        answer = await self._ask_any(await self.route(topic), GetTopicConfig(topic))
        if not isinstance(answer, TopicConfigAnswer) or answer.code != SUCCESS or answer.body is None:
            raise broker_answer(answer.code, answer.remark, f"configuration of topic {topic}")
        config: TopicConfig = answer.body
        return config

    async def _ask_group(self, group: str) -> SubscriptionGroupConfig:
        known = self.client.routes.addresses
        addresses = [at for at in (address_to_read(known, name) for name in known) if at is not None]
        if not addresses:
            raise ConnectFailed("no broker is known yet")
        answer = await self._ask_first(addresses, GetGroupConfig(group))
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            return SubscriptionGroupConfig(group)  # Brokers create it when it first consumes.
        if not isinstance(answer, GroupConfigAnswer) or answer.code != SUCCESS or answer.body is None:
            raise broker_answer(answer.code, answer.remark, f"configuration of group {group}")
        config: SubscriptionGroupConfig = answer.body
        return config

    async def _ask_any(self, route: TopicRouteData, request: Request) -> Answer:
        """Send a request to the brokers of a route, one by one, until one answers it. Raises: StaticfireError."""
        known = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
        addresses = [at for at in (address_to_read(known, name) for name in known) if at is not None]
        return await self._ask_first(addresses, request)

    async def _ask_first(self, addresses: list[str], request: Request) -> Answer:
        """Send a request to one broker after the other, the silent ones last, until one doesn't refuse it.

        Raises: NetworkError, BrokerAnswer.
        """
        failure: StaticfireError = ConnectFailed("the route contains no broker")
        for address in sorted(addresses, key=self._silent.__contains__):
            try:
                answer = await self.client.pool.ask(address, request, ANSWER_TIMEOUT_MS)
            except NetworkError as error:
                self._silent.add(address)
                failure = error
                continue
            self._silent.discard(address)
            if answer.code in _ANSWERS:
                return answer
            failure = broker_answer(answer.code, answer.remark, f"{type(request).__name__} of {address}")
        raise failure
