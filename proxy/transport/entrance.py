"""A connection from its first byte: recognise the protocol, have TLS removed, start gRPC.

socket -> (TlsLayer) -> Entrance -> GrpcConnection

The layer is put in when the first byte is that of TLS. It is the transport of the entrance from then on.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.first_bytes import Speaks, recognise
from staticfire.proxy.transport.grpc_connection import GrpcConnection, Shared
from staticfire.runtime.addresses import Address, plain_host
from staticfire.runtime.server import TLS_IN_TLS
from staticfire.runtime.tls.settings import DISABLED, ENFORCING

# The event of a connection that is closed before it speaks gRPC.
REFUSED = "grpc_connection_refused"
# How many bytes of responses the transport buffers; above that they wait in their streams.
WRITE_BUFFER_BYTES_MAX = 1024 * 1024


class Porch(Shared, Protocol):
    """The endpoint, as seen by a new connection."""

    def came(self, entrance: "Entrance") -> bool:
        """Register a connection. Return whether there is room for it."""

    def greeted(self, entrance: "Entrance") -> None:
        """Note that the protocol of a connection is recognised."""

    def gone(self, entrance: "Entrance") -> None: ...

    @property
    def tls_mode(self) -> str:
        """Which of TLS and plain text is accepted."""

    def begin_tls(self, entrance: "Entrance", wire: asyncio.Transport, first: bytes) -> asyncio.Transport:
        """Begin TLS on a connection whose first bytes are `first`; return the transport that its protocol gets."""


class Entrance(asyncio.Protocol):
    """The socket's side of one client."""

    def __init__(self, porch: Porch) -> None:
        self._porch = porch
        self._transport: asyncio.Transport | None = None
        self._receive: Callable[[bytes], None] = self._receive_first
        self._first = b""
        self._is_tls = False
        self._is_closing = False
        self.grpc: GrpcConnection | None = None
        """Set as soon as the client is known to speak HTTP/2."""
        self.peer: Address = ("?", 0)
        self.came_at: UptimeMs = porch.clock.uptime_ms()
        self.closing_since: UptimeMs | None = None
        self.closed: asyncio.Future[None] | None = None

    # -- called by asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer = plain_host(host), port
        self.closed = asyncio.get_running_loop().create_future()
        if not self._porch.came(self):
            self.refuse("no more connections are accepted")

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._receive(data)

    def pause_writing(self) -> None:
        if self.grpc is not None:
            self.grpc.paused()

    def resume_writing(self) -> None:
        if self.grpc is not None:
            self.grpc.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._is_closing = True
        self._first = b""
        if self.grpc is not None:
            self.grpc.lost()
        if self.closed is not None and not self.closed.done():
            self.closed.set_result(None)
        self._porch.gone(self)

    # -- protocol ------------------------------------------------------------------------------------------------

    def _receive_first(self, data: bytes) -> None:
        self._first += data
        speaker = recognise(self._first)
        if speaker is None:
            return
        if speaker.speaks is Speaks.OTHER:
            self.write(speaker.answer)
            self.refuse(speaker.words)
        elif speaker.speaks is Speaks.TLS and self._is_tls:
            self.refuse(TLS_IN_TLS)
        elif speaker.speaks is Speaks.HTTP_2 or self._is_tls:
            if not self._is_tls and self._porch.tls_mode == ENFORCING:
                self.refuse("plain text on an enforcing port: turn TLS on in the client (tls.server.mode)")
                return
            self._begin_grpc()
        elif self._porch.tls_mode == DISABLED:
            self.refuse("TLS on a port where tls.server.mode=disabled: turn it off in the client (enableSsl, useSSL)")
        else:
            self._begin_tls()

    def _begin_grpc(self) -> None:
        self.grpc = GrpcConnection(self._porch, self.peer, self)
        self._porch.greeted(self)
        plain, self._first = self._first, b""
        self._receive = self.grpc.receive
        self.grpc.receive(plain)

    def _begin_tls(self) -> None:
        assert self._transport is not None
        self._is_tls = True
        first, self._first = self._first, b""
        self._transport = self._porch.begin_tls(self, self._transport, first)

    # -- sending -------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    @property
    def waiting_bytes(self) -> int:
        """How many written bytes couldn't be sent yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def refuse(self, words: str) -> None:
        """Close the connection and log the reason."""
        self._porch.note(REFUSED, self.peer, words)
        self.close()

    def close(self) -> None:
        self._is_closing = True
        if self.closing_since is None:
            self.closing_since = self._porch.clock.uptime_ms()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
