"""Registers this client's groups with every broker: on connecting, then every 30 s; and unregisters them.
RocketMQ: MQClientInstance.sendHeartbeatToAllBroker, unregisterClient.

Versions of subscriptions are times. They are the brokers' time, so that a client with a wrong clock doesn't exclude
other members. So the first heartbeat of a client that has consumers only queries the time, and doesn't contain the
subscriptions; its response is followed by a complete heartbeat. Our brokers also return news for the members of each
group (`take_news`). RocketMQ's brokers ignore both requests.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from staticfire.client.cluster.broker_time import BrokerTime
from staticfire.client.cluster.route_cache import RouteCache
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import AnswerTimeout, ClientError
from staticfire.protocol.requests.clients import (
    ConsumerData,
    GroupNews,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatData,
    ProducerData,
    UnregisterClient,
)
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock
from staticfire.runtime.pool import ConnectionPool

log = logger("client")

DescribeConsumer = Callable[[], ConsumerData]
TakeNews = Callable[[GroupNews], None]
VERSION_UNKNOWN = MessageMs(0)
# The maximum number of remembered findings. A broker that reports more has a bug.
WARNED_MAX = 1_000


class AnnouncedConsumer(NamedTuple):
    """A consumer, as heartbeats need it."""

    describe: DescribeConsumer
    """Called for each heartbeat."""
    take_news: TakeNews | None
    """Called with a broker's news about the group, if there is any."""


class Heartbeats:
    """The heartbeats of one client."""

    def __init__(
        self,
        client_id: str,
        settings: ClientSettings,
        clock: Clock,
        pool: ConnectionPool,
        routes: RouteCache,
        connected: Callable[[str], None],
    ) -> None:
        """`connected`: called with the address, after the first heartbeat on a new connection has a response."""
        self._client_id = client_id
        self._settings = settings
        self._clock = clock
        self._pool = pool
        self._routes = routes
        self._connected = connected
        self._time = BrokerTime()
        self._answers: dict[asyncio.Future[Answer], None] = {}
        """The responses that `answered` waits for."""
        self._hellos: dict[Connection, None] = {}
        """Connections with a time query in flight. Its response is followed by a complete heartbeat."""
        # By address: the last connection that a heartbeat was sent on.
        self._greeted: dict[str, Connection] = {}
        self.producers: dict[str, None] = {}
        self.consumers: dict[str, AnnouncedConsumer] = {}
        # Findings that have been logged. Never iterated.
        self._warned: set[tuple[str, str, str]] = set()
        self.broker_versions: dict[str, int] = {}
        """The version in each broker's response, by address."""

    # -- time ----------------------------------------------------------------------------------------------------

    def version_ms(self) -> MessageMs:
        """Return the version for a subscription that changes now; VERSION_UNKNOWN before any broker has responded.

        Without align_versions, and with RocketMQ's brokers, it is this machine's time.
        """
        if self._is_time_missing:
            return VERSION_UNKNOWN
        return MessageMs(self._clock.wall_ms() + self._time.ahead_ms)

    @property
    def _is_time_missing(self) -> bool:
        return self._settings.align_versions and not self._time.is_settled

    # -- groups --------------------------------------------------------------------------------------------------

    def add_producer(self, group: str) -> None:
        """Register a producer. Raises: ClientError if this client has one of that group."""
        if group in self.producers:
            raise ClientError(f"a producer of group {group} has been created before; specify another name please")
        self.producers[group] = None
        self.send_all()

    def add_consumer(self, group: str, consumer: AnnouncedConsumer) -> None:
        """Register a consumer. Raises: ClientError if this client has one of that group."""
        if group in self.consumers:
            raise ClientError(f"a consumer of group {group} has been created before; specify another name please")
        self.consumers[group] = consumer
        self.send_all()

    def remove_producer(self, group: str) -> Awaitable[object]:
        """Unregister a producer from the brokers now. The result can be awaited: it ends with their responses."""
        if group not in self.producers:
            return asyncio.gather()
        del self.producers[group]
        return self._unregister(UnregisterClient(client_id=self._client_id, producer_group=group))

    def remove_consumer(self, group: str) -> Awaitable[object]:
        """Unregister a consumer from the brokers now. The result can be awaited: it ends with their responses."""
        if group not in self.consumers:
            return asyncio.gather()
        del self.consumers[group]
        return self._unregister(UnregisterClient(client_id=self._client_id, consumer_group=group))

    async def remove_all(self) -> None:
        """Unregister all producers and consumers, one after the other."""
        for group in list(self.producers):
            await self.remove_producer(group)
        for group in list(self.consumers):
            await self.remove_consumer(group)

    def _unregister(self, request: UnregisterClient) -> Awaitable[object]:
        timeout_ms = self._settings.mq_client_api_timeout_ms
        answers = []
        # The last consumer unregisters from slaves, too, although no heartbeat goes there any more.
        for address in (at for replicas in self._routes.addresses.values() for at in replicas.values()):
            connection = self._pool.open_connection(address)
            # Without a connection there is nothing to do: the broker has unregistered this client by itself.
            if connection is not None:
                answer = connection.ask(request, timeout_ms)
                answer.add_done_callback(self._unregistered)
                answers.append(answer)
        return asyncio.gather(*answers, return_exceptions=True)

    def _unregistered(self, answer: asyncio.Future[Answer]) -> None:
        error = None if answer.cancelled() else answer.exception()
        if error is not None:
            log.info("goodbye_not_answered", client_id=self._client_id, reason=str(error))

    # -- sending -------------------------------------------------------------------------------------------------

    def addresses(self) -> list[str]:
        """Return the addresses for heartbeats: all known brokers; only masters while there are no consumers."""
        return [
            address
            for replicas in self._routes.addresses.values()
            for broker_id, address in replicas.items()
            if broker_id == MASTER_ID or self.consumers
        ]

    def send_all(self) -> None:
        """Send a heartbeat to every connected broker. The others get theirs when they are connected."""
        for address in self.addresses():
            connection = self._pool.open_connection(address)
            if connection is not None:
                self.send(address, connection, is_new=False)

    def greet(self) -> None:
        """Send a heartbeat to brokers that were connected before they were known to belong to this cluster."""
        for address in self.addresses():
            connection = self._pool.open_connection(address)
            if connection is not None and self._greeted.get(address) is not connection:
                self.send(address, connection, is_new=True)

    def send(self, address: str, connection: Connection, is_new: bool, is_waited_for: bool = True) -> None:
        """Send a heartbeat. `is_new`: the first on this connection. Nothing is sent while there are no groups."""
        if (not self.producers and not self.consumers) or connection in self._hellos:
            return
        is_hello = bool(self.consumers) and self._is_time_missing
        heartbeat = Heartbeat(
            body=HeartbeatData(
                client_id=self._client_id,
                producer_data_set=[ProducerData(group_name=group) for group in self.producers],
                consumer_data_set=[] if is_hello else [one.describe() for one in self.consumers.values()],
                wants_news=True,
            )
        )
        self._greeted[address] = connection
        answer = connection.ask(heartbeat, self._settings.mq_client_api_timeout_ms)
        if is_waited_for:
            self._answers[answer] = None
        if is_hello:
            self._hellos[connection] = None
        sent = _Sent(address, connection, is_new, is_hello, self._clock.wall_ms())
        answer.add_done_callback(partial(self._answered, sent))

    async def answered(self) -> None:
        """Return when every heartbeat that was sent has a response, has failed, or has timed out.

        A broker that is too slow gets its query again, one at a time, but this method doesn't wait for that.
        """
        while self._answers:
            await asyncio.wait(list(self._answers))

    def _answered(self, sent: "_Sent", future: asyncio.Future[Answer]) -> None:
        self._answers.pop(future, None)
        if sent.is_hello:
            self._hellos.pop(sent.connection, None)
        if future.cancelled():
            return
        error = future.exception()
        answer = None if error is not None else future.result()
        if answer is None:
            log.info("heartbeat_not_answered", broker=sent.address, reason=str(error))
        elif answer.code != SUCCESS:
            log.warning("heartbeat_refused", broker=sent.address, reason=answer.remark)
        elif isinstance(answer, HeartbeatAnswer):
            self._time.learn(sent.address, answer.broker_time_ms, sent.wall_ms, self._clock.wall_ms())
        if sent.is_hello:
            # In any case brokers must get the subscriptions next. A broker that is only slow gets the time query again.
            is_late = isinstance(error, AnswerTimeout)
            self._time.is_settled |= not is_late
            if sent.connection.is_open:
                self.send(sent.address, sent.connection, sent.is_new, is_waited_for=not is_late)
        elif answer is not None and answer.code == SUCCESS:
            self._taken_in(sent, answer)

    def _taken_in(self, sent: "_Sent", answer: Answer) -> None:
        """Continue after a broker has registered the groups."""
        self.broker_versions[sent.address] = sent.connection.peer.version
        if sent.is_new:
            self._connected(sent.address)
        for news in (answer.body or []) if isinstance(answer, HeartbeatAnswer) else []:
            self._warn(news)
            consumer = self.consumers.get(news.group)
            if consumer is not None and consumer.take_news is not None:
                consumer.take_news(news)

    def _warn(self, news: GroupNews) -> None:
        """Log the problems that a broker found in a group, each one once."""
        for finding in news.findings:
            key = (news.group, finding.kind, finding.subject)
            if key not in self._warned and len(self._warned) < WARNED_MAX:
                self._warned.add(key)
                log.warning("group_has_a_problem", group=news.group, kind=finding.kind, reason=finding.words)


class _Sent(NamedTuple):
    """A heartbeat that is in flight."""

    address: str
    connection: Connection
    is_new: bool
    is_hello: bool
    wall_ms: MessageMs
