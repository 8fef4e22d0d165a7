"""Who is here: every broker hears of this client's groups as soon as there is a connection, then every 30 s, and when
they leave. RocketMQ: MQClientInstance.sendHeartbeatToAllBroker, unregisterClient.

Subscriptions have times as versions. They are the brokers', so that a client whose clock is wrong shuts nobody out: the
first heartbeat of a client that has consumers asks for the time and says nothing of them. Our brokers also tell, for
each group, what its members should know (`told`). RocketMQ's brokers answer neither, and don't mind being asked.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from staticfire.client.cluster.broker_time import BrokerTime
from staticfire.client.cluster.route_cache import RouteCache
from staticfire.client.cluster.routes import MASTER_ID
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
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock
from staticfire.runtime.pool import ConnectionPool

log = logger("client")

DescribeConsumer = Callable[[], ConsumerData]
Told = Callable[[GroupNews], None]
VERSION_UNKNOWN = MessageMs(0)
WARNED_MAX = 1_000
# Findings that are remembered as told. More of them would be a broker's mistake.


class AnnouncedConsumer(NamedTuple):
    """A consumer, as heartbeats see it."""

    describe: DescribeConsumer
    """Asked at each heartbeat."""
    told: Told | None
    """Called with what a broker answers about the group, when that is anything."""


class Heartbeats:
    """Those of one client."""

    def __init__(
        self,
        client_id: str,
        settings: ClientSettings,
        clock: Clock,
        pool: ConnectionPool,
        routes: RouteCache,
        connected: Callable[[str], None],
    ) -> None:
        """`connected`: called with the address when the first heartbeat over a new connection was answered."""
        self._client_id = client_id
        self._settings = settings
        self._clock = clock
        self._pool = pool
        self._routes = routes
        self._connected = connected
        self._time = BrokerTime()
        self._answers: dict[asyncio.Future[Answer], None] = {}
        """Those that `answered` waits for."""
        self._hellos: dict[Connection, None] = {}
        """Where one that asks for the time is under way, whose answer is followed by one that says all."""
        self._greeted: dict[str, Connection] = {}
        # By address the last connection that a heartbeat went over.
        self.producers: dict[str, None] = {}
        self.consumers: dict[str, AnnouncedConsumer] = {}
        self._warned: set[tuple[str, str, str]] = set()  # What has been told. Never iterated.
        self.broker_versions: dict[str, int] = {}
        """The version that a broker's answer announced, by address."""

    # -- time ----------------------------------------------------------------------------------------------------

    def version_ms(self) -> MessageMs:
        """Return what a subscription that changes now has as its version, VERSION_UNKNOWN before any broker answered.

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
        """Announce a producer. Raises: ClientError when this client has one of that group."""
        if group in self.producers:
            raise ClientError(f"a producer of group {group} has been created before; specify another name please")
        self.producers[group] = None
        self.send_all()

    def add_consumer(self, group: str, consumer: AnnouncedConsumer) -> None:
        """Announce a consumer. Raises: ClientError as above."""
        if group in self.consumers:
            raise ClientError(f"a consumer of group {group} has been created before; specify another name please")
        self.consumers[group] = consumer
        self.send_all()

    async def remove_producer(self, group: str) -> None:
        """Say goodbye for a producer."""
        if group in self.producers:
            del self.producers[group]
            await self._unregister(UnregisterClient(client_id=self._client_id, producer_group=group))

    async def remove_consumer(self, group: str) -> None:
        """Say goodbye for a consumer."""
        if group in self.consumers:
            del self.consumers[group]
            await self._unregister(UnregisterClient(client_id=self._client_id, consumer_group=group))

    async def _unregister(self, request: UnregisterClient) -> None:
        timeout_ms = self._settings.mq_client_api_timeout_ms
        answers = []
        for address in self.addresses():
            connection = self._pool.open_connection(address)
            if connection is not None:  # A broker without a connection has dropped this client by itself.
                answers.append(connection.ask(request, timeout_ms))
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.info("goodbye_not_answered", client_id=self._client_id, reason=str(outcome))

    # -- sending -------------------------------------------------------------------------------------------------

    def addresses(self) -> list[str]:
        """Return where heartbeats go: all known brokers; masters only while there are no consumers."""
        return [
            address
            for replicas in self._routes.addresses.values()
            for broker_id, address in replicas.items()
            if broker_id == MASTER_ID or self.consumers
        ]

    def send_all(self) -> None:
        """Send one to every broker that there is a connection to. The others get theirs when they are connected."""
        for address in self.addresses():
            connection = self._pool.open_connection(address)
            if connection is not None:
                self.send(address, connection, is_new=False)

    def greet(self) -> None:
        """Send one to brokers that were connected to before they were known as brokers of this cluster."""
        for address in self.addresses():
            connection = self._pool.open_connection(address)
            if connection is not None and self._greeted.get(address) is not connection:
                self.send(address, connection, is_new=True)

    def send(self, address: str, connection: Connection, is_new: bool, is_waited_for: bool = True) -> None:
        """Send one; `is_new`: the first over this connection. Nothing is sent while there is nobody to tell of."""
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
        """Return when all that have been sent are answered, or can't be any more, or weren't in time.

        A broker that lets a time out pass is asked on, one question at a time, but nobody waits for that.
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
            # Whatever came of it, brokers have to hear of the consumers. One that is only slow is asked again.
            is_late = isinstance(error, AnswerTimeout)
            self._time.is_settled |= not is_late
            if sent.connection.is_open:
                self.send(sent.address, sent.connection, sent.is_new, is_waited_for=not is_late)
        elif answer is not None and answer.code == SUCCESS:
            self._taken_in(sent, answer)

    def _taken_in(self, sent: "_Sent", answer: Answer) -> None:
        """Go on after a broker has heard of the groups."""
        self.broker_versions[sent.address] = sent.connection.peer.version
        if sent.is_new:
            self._connected(sent.address)
        for news in (answer.body or []) if isinstance(answer, HeartbeatAnswer) else []:
            self._warn(news)
            consumer = self.consumers.get(news.group)
            if consumer is not None and consumer.told is not None:
                consumer.told(news)

    def _warn(self, news: GroupNews) -> None:
        """Log what a broker finds wrong with a group, each finding once."""
        for finding in news.findings:
            key = (news.group, finding.kind, finding.subject)
            if key not in self._warned and len(self._warned) < WARNED_MAX:
                self._warned.add(key)
                log.warning("group_has_a_problem", group=news.group, kind=finding.kind, reason=finding.words)


class _Sent(NamedTuple):
    """A heartbeat that is under way."""

    address: str
    connection: Connection
    is_new: bool
    is_hello: bool
    wall_ms: MessageMs
