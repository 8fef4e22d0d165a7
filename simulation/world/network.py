"""The simulated network: the listeners, and the links between processes.

Machines are identified by their host. 127.0.0.1 and localhost are the machine of the calling process. A process's name
is a host name. There is no IPv6. If no process has an address, connecting to it gets no response; if one has it but
doesn't listen, the connection is refused.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from staticfire.runtime.pending_answers import deadline
from staticfire.runtime.reach import Surroundings
from staticfire.simulation.world.chance import source_of_chance
from staticfire.simulation.world.history import History
from staticfire.simulation.world.link import WIRE, Link, LinkQuality
from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.process import Process
from staticfire.simulation.world.transport import End, SimulatedTransport

EVERYWHERE = "0.0.0.0"
ACCEPT_AGAIN_NS = 1_000_000_000
FREE_PORTS = range(40_000, 65_536)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process listens: an address and a port of a machine."""

    machine: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


class SimulatedListener:
    """A port that accepts connections."""

    def __init__(
        self, process: Process, place: Place, factory: Callable[[], asyncio.Protocol], network: "SimulatedNetwork"
    ) -> None:
        self.process = process
        self.place = place
        self.factory = factory
        self._network = network
        self._backlog: deque[SimulatedTransport] = deque()

    def __repr__(self) -> str:
        return f"listener of {self.process.name} at {self.place}"

    @property
    def host(self) -> str:
        return self.place.address

    @property
    def port(self) -> int:
        return self.place.port

    @property
    def is_listening(self) -> bool:
        return self._network.listeners.get(self.place) is self

    @property
    def is_full(self) -> bool:
        """Return whether the process has no file descriptors left."""
        return self.process.name in self._network.full

    def accept(self, transport: SimulatedTransport) -> None:
        """Give a connection to the process; without descriptors, it waits in the backlog.

        The backlog is a queue, as the kernel's: a connection never overtakes an older one.
        """
        if not self.is_full and not self._backlog:
            self._hand_over(transport)
            return
        self._backlog.append(transport)
        if len(self._backlog) == 1:
            self._accept_later()

    def _accept_later(self) -> None:
        """Try again after a second, as asyncio does."""
        loop = self._network.loop
        loop.call_at_ns(loop.uptime_ns + ACCEPT_AGAIN_NS, self._accept_waiting, context=WIRE)

    def _accept_waiting(self) -> None:
        if self.is_full:
            self._accept_later()
            return
        while self._backlog:
            self._hand_over(self._backlog.popleft())

    def _hand_over(self, transport: SimulatedTransport) -> None:
        """Open a connection in the process; if it doesn't listen any more, reset the connection."""
        if self.is_listening:
            transport.call_in_process(lambda: transport.open(self.factory()))
        else:
            transport.close_socket(End.RESET)

    async def close(self) -> None:
        if self.is_listening:
            del self._network.listeners[self.place]


@dataclass
class SimulatedNetwork:
    """The listeners of all machines, and all links."""

    loop: JumpingLoop
    history: History
    seed: int
    quality: LinkQuality
    listeners: dict[Place, SimulatedListener] = field(default_factory=dict)
    transports: dict[SimulatedTransport, None] = field(default_factory=dict)
    """The transports whose socket isn't closed, oldest first."""
    hosts: dict[str, str] = field(default_factory=dict)
    """Host by process name."""
    full: set[str] = field(default_factory=set)
    """Processes that have no file descriptors left for another connection."""
    surroundings: Surroundings = Surroundings()  # noqa: RUF009 (it is frozen)
    """The networks that every machine is in."""
    _links: dict[tuple[str, str], Link] = field(default_factory=dict)
    _owners: dict[Place, str] = field(default_factory=dict)
    _ports_given: dict[str, int] = field(default_factory=dict)

    def link(self, sender: str, receiver: str) -> Link:
        """Return the link in this direction."""
        link = self._links.get((sender, receiver))
        if link is None:
            link = Link(self.loop, self.quality, source_of_chance(self.seed, "link", sender, receiver))
            self._links[sender, receiver] = link
        return link

    def links_of(self, name: str) -> Iterable[Link]:
        """Return all links to and from a process."""
        others = [other for other in self.hosts if other != name]
        return [link for other in others for link in (self.link(name, other), self.link(other, name))]

    def heal_all(self) -> None:
        for link in self._links.values():
            link.heal()

    def free_port(self, machine: str) -> int:
        taken = {place.port for place in self.listeners if place.machine == machine}
        while True:
            given = self._ports_given[machine] = self._ports_given.get(machine, -1) + 1
            port = FREE_PORTS[given % len(FREE_PORTS)]
            if port not in taken:
                return port

    def listen(
        self, process: Process, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> SimulatedListener:
        """Open a port. Raises: OSError."""
        address = self._own_address(process, host, port)
        place = Place(process.host, address, port or self.free_port(process.host))
        for other in self.listeners:
            overlap = address == other.address or EVERYWHERE in (address, other.address)
            if other.machine == place.machine and other.port == place.port and overlap:
                raise _network_error(errno.EADDRINUSE, host, place.port)
        self.listeners[place] = listener = SimulatedListener(process, place, factory, self)
        self._owners[place] = process.name
        self.history.record(process.name, "listens", place)
        return listener

    def destination(self, process: Process, host: str, port: int) -> Place:
        """Return the place that host:port means for a process."""
        host = self.hosts.get(host, "127.0.0.1" if host in ("localhost", EVERYWHERE) else host)
        is_own = host.startswith("127.") and host not in self.hosts.values()
        return Place(process.host if is_own else host, host, port)

    def listener_at(self, place: Place) -> SimulatedListener | None:
        return self.listeners.get(place) or self.listeners.get(Place(place.machine, EVERYWHERE, place.port))

    def owner_of(self, place: Place) -> str | None:
        """Return the process whose link leads to a place, None if there is none.

        It is the place's listener, its last listener, or any process on that machine.
        """
        listener = self.listener_at(place)
        if listener is not None:
            return listener.process.name
        everywhere = Place(place.machine, EVERYWHERE, place.port)
        neighbours = (name for name, host in self.hosts.items() if host == place.machine)
        return self._owners.get(place) or self._owners.get(everywhere) or next(neighbours, None)

    def pair(
        self, process: Process, listener: SimulatedListener, place: Place
    ) -> tuple[SimulatedTransport, SimulatedTransport]:
        """Return both ends of a new connection: the connecting one, the accepting one."""
        source = place.address if place.address.startswith("127.") else process.host
        near, far = (source, self.free_port(process.host)), (place.address, place.port)
        there, back = self.link(process.name, listener.process.name), self.link(listener.process.name, process.name)
        client = SimulatedTransport(self.loop, process, there, (near, far), self.history, self._forget)
        server = SimulatedTransport(self.loop, listener.process, back, (far, near), self.history, self._forget)
        client.peer, server.peer = server, client
        for end in (client, server):
            self.transports[end] = None
        return client, server

    def drop(self, process: Process) -> None:
        """Remove a killed process from the network; its connections are reset at the other sides."""
        for listener in [listener for listener in self.listeners.values() if listener.process is process]:
            del self.listeners[listener.place]
        for transport in [transport for transport in self.transports if transport.process is process]:
            transport.close_socket(End.RESET)

    def reset_connections(self, name: str) -> int:
        """Reset all connections of a process from the network; return their number."""
        broken = [transport for transport in self.transports if transport.process.name == name]
        for transport in broken:
            transport.break_off()
        return len(broken)

    def _forget(self, transport: SimulatedTransport) -> None:
        self.transports.pop(transport, None)

    def _own_address(self, process: Process, host: str, port: int) -> str:
        if host in ("", EVERYWHERE):
            return EVERYWHERE
        if ":" in host:
            raise _network_error(errno.EAFNOSUPPORT, host, port)
        host = self.hosts.get(host, "127.0.0.1" if host == "localhost" else host)
        if host != process.host and not host.startswith("127."):
            raise _network_error(errno.EADDRNOTAVAIL, host, port)
        return host


class ProcessNetwork:
    """The network, as seen by one process."""

    def __init__(self, process: Process, network: SimulatedNetwork) -> None:
        self._process = process
        self._network = network

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> SimulatedListener:
        self._process.require_alive()
        if sock is not None:
            raise ValueError("a simulated machine has no sockets to take over")
        return self._network.listen(self._process, factory, host, port)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        self._process.require_alive()
        try:
            async with deadline(timeout_ms / 1000):
                return await self._connect(factory, host, port)
        except TimeoutError:
            raise TimeoutError(f"{host}:{port}: no response within {timeout_ms} ms") from None

    def surroundings(self) -> Surroundings:
        return self._network.surroundings

    async def _connect(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Transport:
        network, process = self._network, self._process
        if process.name in network.full:
            raise _network_error(errno.EMFILE, host, port)
        place = network.destination(process, host, port)
        listener = await self._knock(place)
        network.history.record(process.name, "connected" if listener else "was refused", place)
        if listener is None:
            raise _network_error(errno.ECONNREFUSED, host, port)
        client, server = network.pair(process, listener, place)
        client.outgoing.carry(listener.accept, server)
        opened = network.loop.create_future()
        client.call_in_process(_open, client, factory(), opened)
        try:
            await opened
        except BaseException:
            client.close()
            raise
        return client

    async def _knock(self, place: Place) -> SimulatedListener | None:
        """Return the listener at a place after a round trip, None if there is none; never, if nothing responds."""
        network = self._network
        owner = network.owner_of(place)
        answer: asyncio.Future[SimulatedListener | None] = network.loop.create_future()

        def answered(listener: SimulatedListener | None) -> None:
            if not answer.done():
                answer.set_result(listener)

        if owner is not None:
            there, back = network.link(self._process.name, owner), network.link(owner, self._process.name)
            there.carry(lambda: back.carry(answered, network.listener_at(place)))
        return await answer


def _open(transport: SimulatedTransport, protocol: asyncio.Protocol, opened: asyncio.Future[None]) -> None:
    try:
        transport.open(protocol)
    finally:
        if not opened.done():
            opened.set_result(None)


def _network_error(number: int, host: str, port: int) -> OSError:
    return OSError(number, f"{host}:{port}: {os.strerror(number)}")
