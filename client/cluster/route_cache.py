"""The routes that a client knows: fetched when first needed, and again every 30 s. RocketMQ: MQClientInstance.

Concurrent callers for the same topic share one request. If a nameserver no longer has a topic, its last route is kept:
the brokers will report the truth. A route guessed from the default topic is used until the topic has its own.
"""

import asyncio
import shlex
from collections.abc import Callable, Iterable

from staticfire.client.cluster.nameservers import Nameservers
from staticfire.client.cluster.routes import broker_addresses, limit_queues, same_route
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import ClientError, StaticfireError, TopicNotFound, broker_answer
from staticfire.protocol.names import DLQ_PREFIX, RETRY_PREFIX, topic_fault
from staticfire.protocol.requests.routes import GetRoute, RouteAnswer, TopicRouteData
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("client")


class RouteCache:
    """Routes by topic, and broker addresses by name."""

    def __init__(self, nameservers: Nameservers, spawn: Spawn) -> None:
        self._nameservers = nameservers
        self._spawn = spawn
        self._routes: dict[str, TopicRouteData] = {}
        self._asking: dict[str, asyncio.Future[TopicRouteData]] = {}
        self._latest: dict[str, None] = {}
        """The topics, in the order of the last changes of their routes."""
        self.guessed: set[str] = set()
        """Topics whose route is guessed from the default topic. Never iterated."""
        self.addresses: dict[str, dict[int, str]] = {}
        """The addresses of all brokers in the routes, by broker name and id."""
        self.listeners: list[Callable[[str, TopicRouteData], None]] = []
        """Called with each new or changed route."""
        self.awaited: dict[str, None] = {}
        """Topics that had no route when a program began to watch them."""

    @property
    def topics(self) -> list[str]:
        """The topics whose routes are known or awaited, in the order of their first request."""
        return list(self._routes | self.awaited)

    def replica_at(self, address: str) -> tuple[str, int] | None:
        """Return the name and the id of the broker at an address; None if no route has it."""
        for name, replicas in self.addresses.items():
            for broker_id, known in replicas.items():
                if known == address:
                    return name, broker_id
        return None

    def known(self, topic: str) -> TopicRouteData | None:
        """Return the route if it is known, without a request."""
        return self._routes.get(topic)

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route; fetch it if it isn't known. Raises: TopicNotFound, NetworkError."""
        return self._routes.get(topic) or await self.fetch(topic)

    async def route_to_publish(self, topic: str, default_topic: str, queue_nums: int) -> TopicRouteData:
        """Return the route, or the one that the topic will have when a broker creates it like `default_topic`.

        Raises: TopicNotFound if there is neither, NetworkError.
        """
        known = self._routes.get(topic)
        if known is not None:
            return known
        try:
            return await self.fetch(topic)
        except TopicNotFound:
            if topic == default_topic:
                raise
        try:
            default = await self._ask(default_topic)
        except TopicNotFound:
            raise self._not_found(
                topic, f"{default_topic} has no route either, so no broker creates topics automatically"
            ) from None
        self._keep(topic, limit_queues(default, queue_nums), guessed=True)
        return self._routes[topic]

    async def fetch(self, topic: str, newest: bool = False) -> TopicRouteData:
        """Fetch the route from a nameserver, and keep it.

        `newest`: the response to a request that began before isn't good enough.
        Raises: TopicNotFound, NetworkError, BrokerAnswer, ClientError (a static topic).
        """
        asking = self._asking.get(topic)
        if newest and asking is not None:
            await asyncio.wait([asking])
            asking = self._asking.get(topic)
        if asking is None:
            asking = asyncio.get_running_loop().create_future()
            self._asking[topic] = asking
            self._spawn(self._answer(topic, asking), f"route of {topic}")
        return await asyncio.shield(asking)

    async def look_up(self, topic: str) -> TopicRouteData:
        """Fetch the route of any topic, including static ones; it isn't kept.

        Raises: TopicNotFound, NetworkError, BrokerAnswer.
        """
        answer = await self._nameservers.ask(GetRoute(topic=topic, accept_standard_json_only=True))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise self._not_found(topic, "")
        if not isinstance(answer, RouteAnswer) or answer.body is None:
            raise broker_answer(answer.code, answer.remark, f"route of {topic} at {self._nameservers.chosen}")
        route: TopicRouteData = answer.body
        return route

    async def _answer(self, topic: str, asking: asyncio.Future[TopicRouteData]) -> None:
        try:
            route = await self._ask(topic)
            self._keep(topic, route)
            asking.set_result(route)
        except StaticfireError as error:
            asking.set_exception(error)
            asking.exception()  # Mark it as retrieved: the callers may be gone.
        finally:
            del self._asking[topic]
            asking.cancel()

    async def _ask(self, topic: str) -> TopicRouteData:
        route = await self.look_up(topic)
        if route.topic_queue_mapping_by_broker:
            raise ClientError(
                f"topic {topic} is a static topic: its logical queues move between brokers, and this client supports "
                "only queues that stay on one broker"
            )
        return route

    def _not_found(self, topic: str, detail: str) -> TopicNotFound:
        return TopicNotFound(
            ResponseCode.TOPIC_NOT_EXIST,
            f"no route to topic {topic} at nameserver {self._nameservers.chosen}"
            + (f" ({detail})" if detail else "")
            + f"; {_way_out(topic, self._nameservers)}",
        )

    def _keep(self, topic: str, route: TopicRouteData, guessed: bool = False) -> None:
        if guessed:
            # Meanwhile the real route was fetched.
            if topic in self._routes:
                return
            self.guessed.add(topic)
        else:
            self.guessed.discard(topic)
            self.awaited.pop(topic, None)
        changed = not same_route(self._routes.get(topic), route)
        self._routes[topic] = route
        if changed:
            self._latest.pop(topic, None)
            self._latest[topic] = None
            self.addresses = broker_addresses(self._routes[one] for one in self._latest if one in self._routes)
            for listener in self.listeners:
                listener(topic, route)

    def forget(self, topic: str) -> None:
        """Forget the route; it is fetched again when it is needed."""
        self._routes.pop(topic, None)
        self._latest.pop(topic, None)
        self.guessed.discard(topic)

    async def refresh(self, topics: Iterable[str]) -> None:
        """Fetch the routes of these topics again. If a request fails, the old route is kept."""
        for topic in topics:
            try:
                await self.fetch(topic)
            except TopicNotFound as error:
                log.debug("route_missing", topic=topic, reason=error.remark)
            except StaticfireError as error:
                log.warning("route_not_refreshed", topic=topic, reason=str(error))


def _way_out(topic: str, nameservers: Nameservers) -> str:
    """Describe how to create a topic. Those of groups are created by brokers, and shouldn't be created by hand."""
    if (fault := topic_fault(topic)) is not None:
        return f"the topic name is invalid: {fault}"
    if topic.startswith(DLQ_PREFIX):
        group = topic.removeprefix(DLQ_PREFIX)
        return f"a broker creates it with the first dead letter of group {group}: the group has none, or doesn't exist"
    if topic.startswith(RETRY_PREFIX):
        group = topic.removeprefix(RETRY_PREFIX)
        return f"a broker creates it when group {group} first consumes: the group doesn't exist"
    return (
        f"create it with `staticfire create {topic} -n {shlex.quote(str(nameservers))}`, "
        "or let brokers create topics at the first send: autoCreateTopicEnable=true"
    )
