"""What the producers and consumers of a program share: nameservers, routes, connections, heartbeats, the client id.

RocketMQ: MQClientInstance. Each producer or consumer makes its own, unless it gets a shared one:

    async with ClusterClient("127.0.0.1:9876") as client, Producer("orders", client=client) as producer: ...

or without asyncio, using `with`: then it runs in an event loop in its own thread, together with all that share it.

It registers its groups with every broker: heartbeats.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self, TypeVar, cast

from staticfire.client.cluster.heartbeats import AnnouncedConsumer, DescribeConsumer, Heartbeats, TakeNews
from staticfire.client.cluster.logged_service import LoggedService
from staticfire.client.cluster.lost_brokers import LostBrokers
from staticfire.client.cluster.nameservers import Nameservers
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.replies import Replies
from staticfire.client.cluster.route_cache import RouteCache
from staticfire.client.cluster.routes import address_to_read, address_to_write, not_found
from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.cluster.transaction_checks import TransactionChecks
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import ConnectFailed
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import MessageMs
from staticfire.runtime.client_machine import client_machine, with_client
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.loop_thread import LoopThread, refuse_in_event_loop
from staticfire.runtime.machine import Machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.settings import tls_client

log = logger("client")

T = TypeVar("T")

# The minimum time between two rounds of route requests, however many sends fail meanwhile.
REFRESH_GAP_MS = 1_000


def _pool(
    settings: ClientSettings,
    machine: Machine,
    dispatcher: Dispatcher,
    came: Callable[[str, Connection], None],
    lost: Callable[[str, Connection], None],
) -> ConnectionPool:
    """Return the connections of a client: with its protocol, its access key, through TLS or not."""
    through = with_client(machine, tls_client(settings.tls))
    return ConnectionPool(through, dispatcher, settings.codec_byte, came, lost, settings.credentials)


class ClusterClient(LoggedService):
    """One program's connection to a cluster."""

    def __init__(
        self,
        namesrv: str | Sequence[str],
        settings: ClientSettings | None = None,
        machine: Machine | None = None,
    ) -> None:
        """`machine`: by default the real one of this process. Raises: UsageError."""
        super().__init__()
        self.settings = settings or ClientSettings()
        self.namespace = Namespace(self.settings.namespace)
        """The namespace of the topics and groups of this client's producers and consumers."""
        self._own_machine = machine is None
        self.machine = machine or client_machine()
        self.dispatcher = Dispatcher()
        """The handlers for brokers' requests to this client."""
        self.pool = _pool(self.settings, self.machine, self.dispatcher, self._connected, self._disconnected)
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
        """Called with the address, after the first heartbeat on a new connection has a response."""
        self.broker_lost: list[Callable[[str], None]] = []
        """Called with the address, after a connection is lost."""
        self.transaction_checks = TransactionChecks(self.dispatcher)
        """Brokers' questions about the transactions of this client's producers."""
        self.replies = Replies(self.dispatcher, self.machine.clock)
        """Replies to the requests of this client's producers."""
        self._heartbeats = Heartbeats(
            self.client_id, self.settings, self.machine.clock, self.pool, self.routes, self._heard
        )
        self._parts: dict[object, object] = {}
        self._refresh = Wakeup()
        self._lost = LostBrokers(self.machine.clock, lambda: bool(self._heartbeats.consumers))
        self.routes.listeners.append(self._lost.route_changed)
        self._heard_on: dict[str, Connection | None] = {}
        """By address: the last connection on which a first heartbeat had a response."""
        self._open = False
        self.thread: LoopThread | None = None
        """Its thread, if it was entered using `with`."""

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
        await self._heartbeats.remove_all()
        await self.dispatcher.close()
        await self.pool.close()
        if self._own_machine:
            await self.machine.workers.close()

    def part(self, make: "Callable[[ClusterClient], T]") -> T:
        """Return `make(client)`: called once, then the same object for all that share this client."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return cast(T, self._parts[make])

    # -- groups --------------------------------------------------------------------------------------------------

    def join_producers(self, group: str) -> None:
        """Register a producer. Raises: ClientError if this client has one of that group."""
        self._heartbeats.add_producer(group)

    def join_consumers(self, group: str, describe: DescribeConsumer, take_news: TakeNews | None = None) -> None:
        """Register a consumer. `describe` is called for each heartbeat, `take_news` with brokers' news about the group.

        Raises: ClientError if this client has one of that group.
        """
        self._heartbeats.add_consumer(group, AnnouncedConsumer(describe, take_news))

    async def leave_producers(self, group: str) -> None:
        """Unregister a producer from the brokers."""
        await self.unregister_producers(group)

    async def leave_consumers(self, group: str) -> None:
        """Unregister a consumer from the brokers."""
        await self.unregister_consumers(group)

    def unregister_producers(self, group: str) -> Awaitable[object]:
        """Unregister a producer now. The result can be awaited: it ends with the brokers' responses."""
        return self._heartbeats.remove_producer(group)

    def unregister_consumers(self, group: str) -> Awaitable[object]:
        """Unregister a consumer now. The result can be awaited: it ends with the brokers' responses."""
        return self._heartbeats.remove_consumer(group)

    # -- heartbeats ----------------------------------------------------------------------------------------------

    @property
    def broker_versions(self) -> dict[str, int]:
        """The version in each broker's heartbeat response, by address."""
        return self._heartbeats.broker_versions

    def version_ms(self) -> MessageMs:
        """Return the version for a subscription that changes now: the brokers' time, 0 while it isn't known."""
        return self._heartbeats.version_ms()

    def broker_addresses(self) -> list[str]:
        """Return the addresses for heartbeats: all known brokers; only masters while there are no consumers."""
        return self._heartbeats.addresses()

    def send_heartbeats(self) -> None:
        """Send a heartbeat to every connected broker. The others get theirs when they are connected."""
        self._heartbeats.send_all()

    def _connected(self, address: str, connection: Connection) -> None:
        if address in self.broker_addresses():
            self._heartbeats.send(address, connection, is_new=True)

    def _disconnected(self, address: str, _: Connection) -> None:
        if self._open:
            for listener in self.broker_lost:
                listener(address)
            if address in self.broker_addresses():
                replica = self.routes.replica_at(address)
                if replica is not None and (self._heartbeats.producers or self._heartbeats.consumers):
                    self._lost.add(replica)
                self.refresh_routes()

    def _heard(self, address: str) -> None:
        """Handle the response to the first heartbeat on a new connection."""
        replica = self.routes.replica_at(address)
        if replica is not None:
            self._lost.found(replica)
        self._heard_on[address] = self.pool.open_connection(address)
        if self._open:
            for listener in self.broker_connected:
                listener(address)

    async def _heartbeat_loop(self) -> None:
        while True:
            await self.pause_for(self.settings.heartbeat_broker_interval_ms)
            self.send_heartbeats()
            if self._heartbeats.producers or self._heartbeats.consumers:
                await self._connect_missing()

    async def _search_loop(self) -> None:
        """Look for lost brokers: one that restarts must learn this client's groups soon."""
        while True:
            await self.pause_for(await self._lost.next_look())
            await self.routes.refresh(self.routes.topics)
            self._note_replaced()
            await self._connect_missing()

    def _note_replaced(self) -> None:
        """Stop looking for a lost broker if another that knows this client has its id now: after a failover."""
        for name, broker_id in self._lost.wanted:
            address = self.routes.addresses.get(name, {}).get(broker_id)
            connection = self.pool.open_connection(address) if address is not None else None
            if address is not None and connection is not None and self._heard_on.get(address) is connection:
                self._lost.found((name, broker_id))

    async def announce(self) -> None:
        """Register with every known broker. Return when each has responded or failed."""
        await self._connect_missing()
        self._heartbeats.greet()
        await self._heartbeats.answered()

    async def _connect_missing(self) -> None:
        """Connect to known brokers without a connection; each gets a heartbeat at once."""
        attempts = [self.pool.connection(address) for address in self.broker_addresses()]
        for outcome in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.info("broker_not_reached", reason=str(outcome))

    # -- brokers -------------------------------------------------------------------------------------------------

    async def address_to_read(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return the address to read a queue from. Fetch its topic's route again if the broker isn't known.

        Raises: ConnectFailed (no such broker), TopicNotFound, NetworkError.
        """
        address = address_to_read(self.routes.addresses, queue.broker_name, broker_id)
        if address is None:
            await self.routes.fetch(queue.topic)
            address = address_to_read(self.routes.addresses, queue.broker_name, broker_id)
        if address is None:
            raise ConnectFailed(not_found(self.routes.addresses, *queue[:2]))
        return address

    async def address_to_write(self, queue: MessageQueue) -> str:
        """Return the address of a queue's master. Fetch its topic's route again if none is known.

        Raises: ConnectFailed (no such broker, or only its slaves), TopicNotFound, NetworkError.
        """
        address = address_to_write(self.routes.addresses, queue.broker_name)
        if address is None:
            await self.routes.fetch(queue.topic)
            address = address_to_write(self.routes.addresses, queue.broker_name)
        if address is None:
            raise ConnectFailed(not_found(self.routes.addresses, *queue[:2]))
        return address

    async def ask_broker(self, queue: MessageQueue, request: Request, timeout_ms: int) -> Answer:
        """Send a request to a queue's broker, to its master if possible. Raises: as `address_to_read`."""
        return await self.pool.ask(await self.address_to_read(queue), request, timeout_ms)

    async def ask_master(self, queue: MessageQueue, request: Request, timeout_ms: int) -> Answer:
        """Send a request that a slave wouldn't serve. Raises: as `address_to_write`."""
        return await self.pool.ask(await self.address_to_write(queue), request, timeout_ms)

    # -- routes --------------------------------------------------------------------------------------------------

    def refresh_routes(self) -> None:
        """Fetch all routes now, because one has proved wrong. Several calls cause one round."""
        self._refresh.wake()

    async def _route_loop(self) -> None:
        while True:
            await self.pause_for(REFRESH_GAP_MS)
            await self._refresh.wait(max(self.settings.poll_name_server_interval_ms - REFRESH_GAP_MS, 0))
            await self.routes.refresh(self.routes.topics)


def client_id(settings: ClientSettings, machine: Machine) -> str:
    """Return `ip@instance`, followed by the unit name. RocketMQ: ClientConfig.buildMQClientId.

    The instance name DEFAULT becomes `pid#random`, so that two clients on one machine are two members.
    """
    instance = settings.instance_name
    if instance == "DEFAULT":
        instance = f"{machine.identity.pid}#{machine.identity.random.getrandbits(48)}"
    unit = f"@{settings.unit_name}" if settings.unit_name else ""
    return f"{settings.client_ip or machine.identity.host_ip}@{instance}{unit}"
