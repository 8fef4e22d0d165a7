"""Listening ports, and the connections that they accepted.

A connection's `store_host` is this server's address as that peer reaches it (`Reach`), at the main port unless the
settings give another one.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.first_bytes import PlainText, TlsHello
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.message_ids import offset_id_prefix
from staticfire.runtime.addresses import Address, parse_address
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Listener, Machine
from staticfire.runtime.reach import Reach
from staticfire.runtime.service import Pause
from staticfire.runtime.tls.settings import DISABLED, ENFORCING, TlsSettings
from staticfire.runtime.unfinished import UnfinishedFrames

if TYPE_CHECKING:
    from staticfire.runtime.repeated_lines import RepeatedLines
    from staticfire.runtime.tls.port import TlsPort

log = logger("server")

ANY_IPV4, ANY_IPV6 = "0.0.0.0", "::"
# As in RocketMQ. Clients send heartbeats every 30 s, so a client that is silent for so long is gone.
IDLE_MS_MAX = 120_000
# How often to check for frames that are incomplete for too long.
SLOW_LOOK_MS = 5_000
# A TLS alert, unexpected_message: the response to plain text where only TLS is accepted. Our clients know it.
ALERT = b"\x15\x03\x03\x00\x02\x02\x0a"
TLS_IN_TLS = "TLS inside of TLS: the client and a program before this port both encrypt; turn it off in one of them"
# Above this number, new connections are closed at once.
CONNECTIONS_MAX = 50_000


class ServerLimits(msgspec.Struct, frozen=True):
    """The limits of what all peers of a server may use together."""

    unfinished_bytes_max: int = 128 * 1024 * 1024
    """The limit for the bytes of incomplete frames."""
    frame_ms_max: int = 60_000
    """The maximum time from a frame's first byte to its last. The sender has given up long before."""


class ServerTls(msgspec.Struct, frozen=True):
    """TLS at the ports of a server."""

    settings: TlsSettings
    refused: Callable[[str, str], None] = lambda address, reason: None
    """Called with the peer's address and the reason, when a connection is closed because of TLS."""


class Server:
    """Accepts connections on one or more ports, and closes all of them when it is closed."""

    def __init__(
        self,
        machine: Machine,
        dispatcher: Dispatcher,
        reach: Reach | None = None,
        limits: ServerLimits | None = None,
        lost: Callable[[Connection], None] | None = None,
        came: Callable[[Connection], None] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """`came` is called with each accepted connection, `lost` with each closed one. `tls`: None for plain text."""
        limits = limits or ServerLimits()
        self._machine = machine
        self._unfinished: UnfinishedFrames[Connection] = UnfinishedFrames(
            limits.unfinished_bytes_max, limits.frame_ms_max
        )
        self._has_unfinished = asyncio.Event()
        self._lost = lost
        self._came = came
        self._tls = tls
        self._tls_port: TlsPort | None = None
        self._lines: RepeatedLines | None = None
        self._needs_tls = tls is not None and tls.settings.tls_server_mode == ENFORCING
        self._dispatcher = dispatcher
        self._reach = reach or Reach()
        self._listeners: list[Listener] = []
        self.connections: dict[Connection, None] = {}
        """They are in the order of arrival, so that the order of closing doesn't depend on addresses in memory."""
        self.port = 0
        """The main port: that of the first listener."""

    async def listen(self, host: str, port: int, sock: socket.socket | None = None) -> int:
        """Accept connections at this address, too; return the port. Raises: OSError, UsageError (TLS)."""
        if self._tls is not None:
            self._tls.settings.check_names()
            if self._tls.settings.reads_files:
                self._open_tls()
        listener = await self._machine.network.listen(self._accept, host, port, sock)
        self._listeners.append(listener)
        if self.port == 0:
            self.port = listener.port
        return listener.port

    async def listen_widely(self, host: str, port: int, sock: socket.socket | None = None) -> int:
        """Accept connections at this address; for every IPv4 address, also at those of IPv6. Raises: OSError."""
        port = await self.listen(host, port, sock)
        if host == ANY_IPV4 and sock is None:
            try:
                await self.listen(ANY_IPV6, port)
            except OSError as error:
                # A machine without IPv6 is fine.
                log.info("ipv6_not_served", port=port, error=str(error))
        return port

    def _accept(self) -> Connection:
        connection = Connection(self._dispatcher, codec_for(NATIVE), accepting=True, owner=self)
        if self._needs_tls:
            connection.require_tls()
        return connection

    # -- TLS -----------------------------------------------------------------------------------------------------

    def takes_over(self, connection: Connection, error: ProtocolError) -> bool:
        """Begin TLS, or refuse what tls.server.mode doesn't allow."""
        if self._tls is None or not isinstance(error, TlsHello | PlainText):
            return False
        if isinstance(error, PlainText):
            if connection.transport is not None:
                connection.transport.write(ALERT)
            self._refuse_tls(connection, str(error))
        elif connection.is_tls:
            self._refuse_tls(connection, TLS_IN_TLS)
        elif self._tls.settings.tls_server_mode == DISABLED:
            self._refuse_tls(connection, "TLS on a port where tls.server.mode=disabled: turn useTLS off in the client")
        else:
            port, address = self._open_tls(), connection.peer.address
            connection.begin_tls(lambda wire, first: port.admit(connection, wire, address, first))
        return True

    def _refuse_tls(self, connection: Connection, reason: str) -> None:
        connection.close()
        self._refused_tls(connection.peer.address, reason)

    def _open_tls(self) -> "TlsPort":
        """Return the part that speaks TLS. Raises: UsageError (a file that can't be used)."""
        if self._tls_port is None:
            # Imported here, because OpenSSL costs 10 ms and 3 MiB.
            from staticfire.runtime.tls.port import TlsContexts, TlsPort

            assert self._tls is not None
            contexts = TlsContexts(self._tls.settings, self._machine.workers)
            contexts.check()
            self._tls_port = TlsPort(contexts, self._refused_tls)
        return self._tls_port

    def _refused_tls(self, address: str, reason: str) -> None:
        self._note("tls_refused", address, reason)

    def rejected(self, connection: Connection, reason: str) -> None:
        self._unfinished.forget(connection)  # A rejected connection drops its data.
        self._note("connection_rejected", connection.peer.address, reason)

    def _note(self, event: str, address: str, reason: str) -> None:
        if self._lines is None:
            # Imported here, because few servers refuse anything.
            from staticfire.runtime.repeated_lines import RepeatedLines

            self._lines = RepeatedLines(self._report)
        self._lines.note(event, address, reason)

    def _report(self, event: str, address: str, reason: str, connections: int) -> None:
        log.warning(event, peer=address, reason=reason, connections=connections)
        if event == "tls_refused" and self._tls is not None:
            self._tls.refused(address, reason)

    # -- connections ---------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        if len(self.connections) >= CONNECTIONS_MAX:
            connection.reject(f"{CONNECTIONS_MAX} connections are open, no more are accepted")
            return
        self.connections[connection] = None
        connection.store_host = pack_host(*self._store_address(connection))
        connection.store_id_prefix = offset_id_prefix(connection.store_host)
        connection.born_host = pack_host(*parse_address(connection.peer.address))
        if self._came is not None:
            self._came(connection)

    def _store_address(self, connection: Connection) -> Address:
        network, peer_host = self._machine.network, parse_address(connection.peer.address)[0]
        is_near = not self._reach.external_host or network.surroundings().has_near(peer_host)
        return self._reach.ip_address((connection.local_address[0], self.port), is_near)

    def disconnected(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._unfinished.forget(connection)
        if self._lost is not None:
            self._lost(connection)

    def left_unfinished(self, connection: Connection, unread_bytes: int, is_new: bool) -> None:
        uptime_ms = self._machine.clock.uptime_ms()
        self._has_unfinished.set()
        for oldest in self._unfinished.note(connection, unread_bytes, is_new, uptime_ms):
            oldest.reject(
                "the incomplete frames of all connections exceed their limit, and this connection has the oldest"
            )

    async def slow_loop(self, pause: Pause) -> None:
        """Loop: close the connections whose frame isn't complete in time."""
        while True:
            await self._has_unfinished.wait()
            await pause(SLOW_LOOK_MS)
            self.close_slow()
            if not self._unfinished:
                self._has_unfinished.clear()

    def close_slow(self) -> None:
        """Close the connections whose frame has been incomplete for too long."""
        for connection in self._unfinished.overdue(self._machine.clock.uptime_ms()):
            connection.reject("a frame is still incomplete, long after its first bytes")

    def close_idle(self) -> int:
        """Close the connections that sent nothing since the last call, IDLE_MS_MAX before; return their number."""
        closed = 0
        for connection in list(self.connections):
            if not connection.was_heard:
                closed += connection.is_open
                connection.reject(f"nothing was received for {IDLE_MS_MAX // 1000} s")
            connection.was_heard = False
        return closed

    async def stop_accepting(self) -> None:
        """Close the ports; the connections stay open."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.close()

    async def close(self) -> None:
        """Close the ports and the connections, and wait until they are closed."""
        await self.stop_accepting()
        if self._tls_port is not None:
            self._tls_port.close()
        ends = []
        for connection in list(self.connections):
            connection.close()
            if connection.closed is not None:
                ends.append(connection.closed)
        if self._lines is not None:
            self._lines.close()
        if ends:
            _, stuck = await asyncio.wait(ends, timeout=1)
            # A peer that doesn't read its responses must not delay the shutdown: after a second, its connection is
            # aborted.
            if stuck:
                for connection in list(self.connections):
                    connection.abort()
                await asyncio.wait(stuck, timeout=1)
