"""The port of the gRPC endpoint: accepts connections, enforces the limits over all of them, and closes them."""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from staticfire.proxy.transport.calls import CallKind, GrpcStatus, Methods
from staticfire.proxy.transport.entrance import REFUSED, Entrance
from staticfire.proxy.transport.grpc_connection import GrpcConnection
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.runtime.addresses import Address, format_address
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock, Listener, Machine
from staticfire.runtime.server import ANY_IPV4, ANY_IPV6
from staticfire.runtime.tls.settings import NO_AUTH, TlsSettings

if TYPE_CHECKING:
    from staticfire.runtime.repeated_lines import RepeatedLines
    from staticfire.runtime.tls.port import TlsPort

log = logger("grpc")

# How often idle and stuck connections are looked for.
LOOK_MS = 5_000
STOPPING = "the endpoint is stopping"


class GrpcEndpoint:
    """Serves gRPC methods on one port."""

    def __init__(
        self, machine: Machine, methods: Methods, limits: TransportLimits | None = None, tls: TlsSettings | None = None
    ) -> None:
        self._machine = machine
        # RocketMQ's gRPC endpoint never requests a certificate from clients.
        self._tls = replace(tls or TlsSettings(), tls_server_need_client_auth=NO_AUTH)
        self._tls_port: TlsPort | None = None
        self._lines: RepeatedLines | None = None
        self._listeners: list[Listener] = []
        self._entrances: dict[Entrance, None] = {}  # In the order in which they were opened.
        # Connections whose protocol isn't recognised yet, the oldest first.
        self._greeting: OrderedDict[Entrance, None] = OrderedDict()
        # The connections that may be closed for new ones, the first one last; None: not determined since the last look.
        self._spare: list[Entrance] | None = None
        self._held_bytes = 0
        self._queued_bytes = 0
        self._shed_planned = False
        self.methods = methods
        self.limits = limits or TransportLimits()
        self.port = 0
        self.open_calls = 0
        """The number of open calls on all connections."""

    @property
    def clock(self) -> Clock:
        return self._machine.clock

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._entrances)

    @property
    def held_bytes(self) -> int:
        """The size of the requests that are incomplete or that no handler has taken."""
        return self._held_bytes

    @property
    def queued_bytes(self) -> int:
        """The size of the responses that couldn't be sent yet; exact after each `look`."""
        return self._queued_bytes

    async def listen(self, host: str, port: int, sock: socket.socket | None = None) -> int:
        """Accept connections at an address; 0.0.0.0 includes all addresses of IPv6. Raises: OSError, UsageError."""
        self._tls.check_names()
        if self._tls.reads_files:
            self._open_tls()
        network = self._machine.network
        listener = await network.listen(self._entrance, host, port, sock)
        self._listeners.append(listener)
        self.port = self.port or listener.port
        if host == ANY_IPV4 and sock is None:
            try:
                self._listeners.append(await network.listen(self._entrance, ANY_IPV6, listener.port))
            except OSError as error:
                log.info("ipv6_not_served", port=listener.port, error=str(error))  # Not every machine has IPv6.
        return listener.port

    def _entrance(self) -> Entrance:
        return Entrance(self)

    # -- used by connections -------------------------------------------------------------------------------------

    def came(self, entrance: Entrance) -> bool:
        self._entrances[entrance] = None
        if len(self._entrances) > self.limits.connections_max and not self._make_room():
            return False
        self._greeting[entrance] = None
        if len(self._greeting) > self.limits.greetings_max:
            oldest = next(iter(self._greeting))
            del self._greeting[oldest]
            oldest.refuse(f"too many connections ({self.limits.greetings_max}) haven't sent their first bytes yet")
            oldest.abort()
        return True

    def _make_room(self) -> bool:
        """Close the oldest connection without calls, or else the oldest spare one. Return whether there was one.

        Which ones there are is determined once per look, because it takes milliseconds if there are thousands of
        connections. gRPC clients connect again when they need to.
        """
        if self._spare is None:
            spare = [each for each in self._entrances if _is_spare(each)]
            spare.sort(key=lambda each: each.grpc is not None and each.grpc.calls > 0)
            self._spare = spare[::-1]
        while self._spare:
            entrance = self._spare.pop()
            if entrance in self._entrances and _is_spare(entrance) and entrance.grpc is not None:
                entrance.grpc.leave(words="it was idle, and other clients want to connect")
                entrance.close()
                return True
        return False

    def greeted(self, entrance: Entrance) -> None:
        self._greeting.pop(entrance, None)

    def gone(self, entrance: Entrance) -> None:
        self._entrances.pop(entrance, None)
        self._greeting.pop(entrance, None)

    def queue(self, size: int) -> None:
        self._queued_bytes += size
        if self._queued_bytes > self.limits.queued_bytes_max and not self._shed_planned:
            self._shed_planned = True
            asyncio.get_running_loop().call_soon(self._shed)

    def _shed(self) -> None:
        """Close the connections that hold the most responses, until a quarter of the limit is free."""
        self._shed_planned = False
        connections = self._connections()
        for grpc in connections:
            grpc.flush()  # Responses that were sent meanwhile don't count.
        if self._queued_bytes <= self.limits.queued_bytes_max:
            return
        for grpc in sorted(connections, key=lambda each: each.queued_bytes, reverse=True):
            if self._queued_bytes <= self.limits.queued_bytes_max * 3 // 4:
                break
            grpc.abort(
                f"the client reads too slowly: {grpc.queued_bytes} bytes of responses wait for it, the most of all "
                f"clients, and {self._queued_bytes} bytes in total (limit: {self.limits.queued_bytes_max})"
            )

    def hold(self, size: int) -> bool:
        self._held_bytes += size
        return self._held_bytes <= self.limits.unfinished_bytes_max

    def relieve(self, connection: GrpcConnection) -> bool:
        most = max(self._connections(), key=lambda each: each.held_bytes)
        if most.held_bytes <= connection.held_bytes:
            return False
        most.fail_held()
        return self._held_bytes <= self.limits.unfinished_bytes_max

    def _connections(self) -> list[GrpcConnection]:
        return [entrance.grpc for entrance in self._entrances if entrance.grpc is not None]

    def note(self, event: str, peer: Address, reason: str) -> None:
        self._note(event, format_address(*peer), reason)

    def _note(self, event: str, address: str, reason: str) -> None:
        if self._lines is None:
            # Imported here, because few connections are refused.
            from staticfire.runtime.repeated_lines import RepeatedLines

            self._lines = RepeatedLines(_report)
        self._lines.note(event, address, reason)

    @property
    def tls_mode(self) -> str:
        return self._tls.tls_server_mode

    def begin_tls(self, entrance: Entrance, wire: asyncio.Transport, first: bytes) -> asyncio.Transport:
        return self._open_tls().admit(entrance, wire, format_address(*entrance.peer), first)

    def _open_tls(self) -> "TlsPort":
        """Return the part that speaks TLS. Raises: UsageError (a file that can't be used)."""
        if self._tls_port is None:
            # Imported here, because OpenSSL costs 10 ms and 3 MiB.
            from staticfire.runtime.tls.port import TlsContexts, TlsPort

            contexts = TlsContexts(self._tls, self._machine.workers, ["h2"])
            contexts.check()
            self._tls_port = TlsPort(contexts, partial(self._note, REFUSED))
        return self._tls_port

    # -- periodic checks -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Close the connections that are idle or stuck. Call it every LOOK_MS."""
        uptime_ms, limits, self._spare = self.clock.uptime_ms(), self.limits, None
        for entrance in list(self._entrances):
            grpc = entrance.grpc
            if grpc is not None:
                grpc.note_progress(entrance.waiting_bytes)
                grpc.fail_unfinished(uptime_ms)
                grpc.fail_stalled(uptime_ms)
                grpc.flush()
            if entrance.closing_since is not None:
                if uptime_ms - entrance.closing_since >= limits.closing_ms_max:
                    entrance.abort()
            elif grpc is None:
                if uptime_ms - entrance.came_at >= limits.greeting_ms_max:
                    entrance.refuse(f"it hasn't sent its first bytes within {limits.greeting_ms_max} ms")
            elif grpc.stuck_since is not None and uptime_ms - grpc.stuck_since >= limits.stuck_ms_max:
                entrance.refuse(f"for {limits.stuck_ms_max} ms it has read no responses, or not completed a frame")
                entrance.abort()
            elif grpc.calls:
                grpc.fail_silent(uptime_ms)
            elif uptime_ms - grpc.idle_since >= limits.idle_ms_max:
                grpc.leave(words="idle")
                entrance.close()

    # -- the end -------------------------------------------------------------------------------------------------

    async def stop_accepting(self) -> None:
        """Close the port; connections remain open."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.close()

    async def close(self) -> None:
        """Close the port, let unary calls finish, end the streams, and wait until all connections are closed."""
        await self.stop_accepting()
        if self._tls_port is not None:
            self._tls_port.close()
        grpc = self._connections()
        for each in grpc:
            each.leave(words=STOPPING)
            each.fail_calls(GrpcStatus.UNAVAILABLE, STOPPING, lambda running: running.kind is not CallKind.UNARY)
        await self._wait_for_tasks()
        for each in grpc:
            each.fail_calls(GrpcStatus.UNAVAILABLE, STOPPING, lambda running: True)
            each.flush()
        for entrance in list(self._entrances):
            entrance.close()
        await self._wait_until_gone()
        if self._lines is not None:
            self._lines.close()

    async def _wait_for_tasks(self) -> None:
        tasks = [task for entrance in self._entrances if entrance.grpc for task in entrance.grpc.tasks()]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.stop_ms_max / 1000)

    async def _wait_until_gone(self) -> None:
        entrances: Sequence[Entrance] = list(self._entrances)
        ends = [entrance.closed for entrance in entrances if entrance.closed is not None]
        if not ends:
            return
        _, stuck = await asyncio.wait(ends, timeout=self.limits.stop_ms_max / 1000)
        if stuck:  # A peer that doesn't read must not keep us running.
            for entrance in entrances:
                entrance.abort()
            await asyncio.wait(stuck, timeout=self.limits.stop_ms_max / 1000)
        tasks = [task for entrance in entrances if entrance.grpc for task in entrance.grpc.tasks()]
        if tasks:
            await asyncio.wait(tasks, timeout=self.limits.stop_ms_max / 1000)


def _is_spare(entrance: Entrance) -> bool:
    """Return whether a connection may be closed when another client needs its place."""
    grpc = entrance.grpc
    return grpc is not None and entrance.closing_since is None and (not grpc.calls or grpc.is_spare)


def _report(event: str, address: str, reason: str, connections: int) -> None:
    log.warning(event, peer=address, reason=reason, connections=connections)
