"""What the producers and consumers of one program share: nameservers, routes, connections, heartbeats, the client id.

RocketMQ: MQClientInstance. A producer or consumer makes its own unless it is given one:

    async with ClusterClient("127.0.0.1:9876") as client, Producer("orders", client=client) as producer: ...

or without asyncio, with `with`: then its event loop, and that of all who share it, is in a thread of its own.

Every broker learns who is here: heartbeats.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self, TypeVar, cast

from staticfire.client.cluster.heartbeats import AnnouncedConsumer, DescribeConsumer, Heartbeats, Told
from staticfire.client.cluster.lost_brokers import LostBrokers
from staticfire.client.cluster.nameservers import Nameservers
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.replies import Replies
from staticfire.client.cluster.route_cache import RouteCache
from staticfire.client.cluster.routes import MASTER_ID, address_to_read
from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.cluster.transaction_checks import TransactionChecks
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ConnectFailed
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.loop_thread import LoopThread, refuse_in_event_loop
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import Service

log = logger("client")

T = TypeVar("T")

REFRESH_GAP_MS = 1_000
# Between two rounds of route questions, however many sends fail meanwhile.


class ClusterClient(Service):
    """One program's link to a cluster."""

    def __init__(
        self,
        namesrv: str | Sequence[str],
        settings: ClientSettings | None = None,
        machine: Machine | None = None,
    ) -> None:
        """`machine`: the live one of this process when none is given. Raises: UsageError."""
        super().__init__()
        self.settings = settings or ClientSettings()
        self.namespace = Namespace(self.settings.namespace)
        """What names of topics and groups mean to the producers and consumers of this client."""
        self._own_machine = machine is None
        self.machine = machine or _live_machine()
        self.dispatcher = Dispatcher()
        """Who handles what brokers ask of this client."""
        self.pool = ConnectionPool(
            self.machine, self.dispatcher, self.settings.codec_byte, self._connected, self._disconnected
        )
        self.nameservers = Nameservers(
            namesrv,
            self.pool,
            self.machine.identity.random,
            self.machine.clock,
            self.settings.mq_client_api_timeout_ms,
        )
        self.routes = RouteCache(self.nameservers, self.spawn)
        self.client_id = client_id(self.settings, self.machine)
        self.broker_connected: list[Callable[[str], None]] = []
        """Called with the address after the first heartbeat over a new connection was answered."""
        self.broker_lost: list[Callable[[str], None]] = []
        """Called with the address when a connection is gone."""
        self.transaction_checks = TransactionChecks(self.dispatcher)
        """What brokers ask of the transactions of this client's producers."""
        self.replies = Replies(self.dispatcher, self.machine.clock)
        """What was answered to the requests of this client's producers."""
        self._heartbeats = Heartbeats(
            self.client_id, self.settings, self.machine.clock, self.pool, self.routes, self._heard
        )
        self._parts: dict[object, object] = {}
        self._refresh = Wakeup()
        self._lost = LostBrokers(self.machine.clock)
        self._open = False
        self.thread: LoopThread | None = None
        """Where it lives when it was entered with `with`."""

    @property
    def is_open(self) -> bool:
        """Whether this client has been entered and not yet left."""
        return self._open

    def __enter__(self) -> Self:
        refuse_in_event_loop("ClusterClient")
        thread = LoopThread("ClusterClient")
        try:
            thread.call(self.__aenter__())
        except BaseException:
            thread.close()
            raise
        self.thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        thread = self.thread
        if thread is None or thread.is_copy:
            return
        try:
            if thread.error is None:
                thread.call(self.__aexit__())
        finally:
            thread.close()

    async def _start(self) -> None:
        self._open = True
        self.spawn(self._route_loop(), "routes")
        self.spawn(self._heartbeat_loop(), "heartbeats")
        self.spawn(self._search_loop(), "lost brokers")

    async def _stop(self) -> None:
        self._open = False
        for group in list(self._heartbeats.producers):
            await self.leave_producers(group)
        for group in list(self._heartbeats.consumers):
            await self.leave_consumers(group)
        await self.dispatcher.close()
        await self.pool.close()
        if self._own_machine:
            await self.machine.workers.close()

    def part(self, make: "Callable[[ClusterClient], T]") -> T:
        """Return what `make` makes of this client: once, and then the same for all who share the client."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return cast(T, self._parts[make])

    # -- groups --------------------------------------------------------------------------------------------------

    def join_producers(self, group: str) -> None:
        """Announce a producer. Raises: ClientError when this client has one of that group."""
        self._heartbeats.add_producer(group)

    def join_consumers(self, group: str, describe: DescribeConsumer, told: Told | None = None) -> None:
        """Announce a consumer; `describe` is asked at each heartbeat, `told` what brokers answer about the group.

        Raises: ClientError as above.
        """
        self._heartbeats.add_consumer(group, AnnouncedConsumer(describe, told))

    async def leave_producers(self, group: str) -> None:
        """Say goodbye for a producer."""
        await self._heartbeats.remove_producer(group)

    async def leave_consumers(self, group: str) -> None:
        """Say goodbye for a consumer."""
        await self._heartbeats.remove_consumer(group)

    # -- heartbeats ----------------------------------------------------------------------------------------------

    @property
    def broker_versions(self) -> dict[str, int]:
        """The version that a broker's heartbeat answer announced, by address."""
        return self._heartbeats.broker_versions

    def version_ms(self) -> MessageMs:
        """Return what a subscription that changes now has as its version: the brokers' time, 0 while it isn't known."""
        return self._heartbeats.version_ms()

    def broker_addresses(self) -> list[str]:
        """Return where heartbeats go: all known brokers; masters only while there are no consumers."""
        return self._heartbeats.addresses()

    def send_heartbeats(self) -> None:
        """Send one to every broker that there is a connection to. The others get theirs when they are connected."""
        self._heartbeats.send_all()

    def _connected(self, address: str, connection: Connection) -> None:
        if address in self.broker_addresses():
            self._heartbeats.send(address, connection, is_new=True)

    def _disconnected(self, address: str, _: Connection) -> None:
        if self._open:
            for listener in self.broker_lost:
                listener(address)
            if address in self.broker_addresses():
                if self._heartbeats.producers or self._heartbeats.consumers:
                    self._lost.add(self.routes.name_of(address))
                self.refresh_routes()

    def _heard(self, address: str) -> None:
        """A broker has answered the first heartbeat over a new connection."""
        self._lost.found(self.routes.name_of(address))
        if self._open:
            for listener in self.broker_connected:
                listener(address)

    async def _heartbeat_loop(self) -> None:
        heartbeats = self._heartbeats
        while True:
            await self.pause_for(self.settings.heartbeat_broker_interval_ms)
            heartbeats.send_all()
            if heartbeats.producers or heartbeats.consumers:
                await self._connect_missing()

    async def _search_loop(self) -> None:
        """Look for brokers whose connection was lost: one that restarts must know the groups of this client soon."""
        while True:
            await self.pause_for(await self._lost.next_look())
            await self.routes.refresh(self.routes.topics)
            await self._connect_missing()

    async def announce(self) -> None:
        """Return when every known broker has heard of the groups of this client, or can't be reached."""
        await self._connect_missing()
        self._heartbeats.greet()
        await self._heartbeats.answered()

    async def _connect_missing(self) -> None:
        """Connect to known brokers that there is no connection to; each gets its heartbeat at once."""
        attempts = [self.pool.connection(address) for address in self.broker_addresses()]
        for outcome in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.info("broker_not_reached", reason=str(outcome))

    # -- brokers -------------------------------------------------------------------------------------------------

    async def address_to_read(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return where to ask about a queue; its topic's route is fetched anew when the broker isn't known.

        Raises: ConnectFailed (the broker isn't there), TopicNotFound, NetworkError.
        """
        address = address_to_read(self.routes.addresses, queue.broker_name, broker_id)
        if address is None:
            await self.routes.fetch(queue.topic)
            address = address_to_read(self.routes.addresses, queue.broker_name, broker_id)
        if address is None:
            known = ", ".join(self.routes.addresses) or "none"
            raise ConnectFailed(
                f"broker {queue.broker_name} isn't in the route of {queue.topic}; known brokers: {known}"
            )
        return address

    async def ask_broker(self, queue: MessageQueue, request: Request, timeout_ms: int) -> Answer:
        """Ask a queue's broker, its master if it can be. Raises: as `address_to_read`."""
        return await self.pool.ask(await self.address_to_read(queue), request, timeout_ms)

    # -- routes --------------------------------------------------------------------------------------------------

    def refresh_routes(self) -> None:
        """Ask for all routes now: something in them has proved wrong. Several calls are one round."""
        self._refresh.wake()

    async def _route_loop(self) -> None:
        while True:
            await self.pause_for(REFRESH_GAP_MS)
            await self._refresh.wait(max(self.settings.poll_name_server_interval_ms - REFRESH_GAP_MS, 0))
            await self.routes.refresh(self.routes.topics)


def client_id(settings: ClientSettings, machine: Machine) -> str:
    """Return `ip@instance`, with the unit name behind it. RocketMQ: ClientConfig.buildMQClientId.

    The instance name DEFAULT becomes `pid#random`, so that two clients of one machine are two members.
    """
    instance = settings.instance_name
    if instance == "DEFAULT":
        instance = f"{machine.identity.pid}#{machine.identity.random.getrandbits(48)}"
    unit = f"@{settings.unit_name}" if settings.unit_name else ""
    return f"{settings.client_ip or machine.identity.host_ip}@{instance}{unit}"


def _live_machine() -> Machine:
    """Import the real machine only where it is wanted: a simulation brings its own."""
    from staticfire.runtime.live import live_machine

    return live_machine()
