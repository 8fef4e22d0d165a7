"""A connection from its first byte: recognise the protocol, remove TLS, start gRPC.

socket -> Entrance -> (TlsSession) -> GrpcConnection
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.first_bytes import Speaks, recognise
from staticfire.proxy.transport.grpc_connection import GrpcConnection, Shared
from staticfire.runtime.addresses import Address, plain_host
from staticfire.runtime.server import TLS_IN_TLS
from staticfire.runtime.tls.settings import DISABLED, ENFORCING

if TYPE_CHECKING:
    from staticfire.runtime.tls.port import ContextOrError
    from staticfire.runtime.tls.session import TlsSession

# How many bytes of responses the transport buffers; above that they wait in their streams.
WRITE_BUFFER_BYTES_MAX = 1024 * 1024
# The size of a client's first TLS bytes, which are buffered while the certificate is made.
HELLO_BYTES_MAX = 64 * 1024


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

    def when_tls_is_ready(self, act: "Callable[[ContextOrError], None]") -> None:
        """Call `act` with the TLS context, when there is one."""


class Entrance(asyncio.Protocol):
    """The socket's side of one client."""

    def __init__(self, porch: Porch) -> None:
        self._porch = porch
        self._transport: asyncio.Transport | None = None
        self._receive: Callable[[bytes], None] = self._receive_first
        self._first = b""
        self._tls: TlsSession | None = None
        self._flush_planned = False
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
        if self._tls is not None and not self._tls.is_open and not self._is_closing:
            words = (
                "TLS: the client disconnected during the handshake; it may have rejected the certificate or the host "
                "name"
            )
            self._porch.note("grpc_connection_refused", self.peer, words)
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
            self._send(speaker.answer)
            self.refuse(speaker.words)
        elif speaker.speaks is Speaks.TLS and self._tls is not None:
            self.refuse(TLS_IN_TLS)
        elif speaker.speaks is Speaks.HTTP_2 or self._tls is not None:
            if self._tls is None and self._porch.tls_mode == ENFORCING:
                self.refuse("plain text on an enforcing port: turn TLS on in the client (tls.server.mode)")
                return
            self._begin_grpc()
        elif self._porch.tls_mode == DISABLED:
            self.refuse("TLS on a port where tls.server.mode=disabled: turn it off in the client (enableSsl, useSSL)")
        else:
            self._receive = self._keep
            self._porch.when_tls_is_ready(self._begin_tls)

    def _begin_grpc(self) -> None:
        self.grpc = GrpcConnection(self._porch, self.peer, self)
        self._porch.greeted(self)
        plain, self._first = self._first, b""
        if self._tls is None:
            self._receive = self.grpc.receive
        self.grpc.receive(plain)

    # -- TLS -----------------------------------------------------------------------------------------------------

    def _begin_tls(self, context: "ContextOrError") -> None:
        if self._is_closing:
            return
        if isinstance(context, UsageError):
            self.refuse(str(context))
            return
        from staticfire.runtime.tls.session import TlsSession  # imported here, because plain text doesn't need OpenSSL

        self._tls = TlsSession(context)
        self._receive = self._receive_tls
        hello, self._first = self._first, b""
        self._receive_tls(hello)

    def _keep(self, data: bytes) -> None:
        """Buffer what arrives while the certificate is being made."""
        self._first += data
        if len(self._first) > HELLO_BYTES_MAX:
            self.refuse("TLS: the client's first message is too long")

    def _receive_tls(self, data: bytes) -> None:
        assert self._tls is not None
        try:
            plain = self._tls.receive(data)
        except ProtocolError as failed:
            self._write_out(self._tls.to_send())  # The alert that reports the failure.
            self.refuse(str(failed))
            return
        self._write_out(self._tls.to_send())
        if not plain:
            return
        if self.grpc is not None:
            self.grpc.receive(plain)
        elif self._first or recognise(plain) is not None:
            self._receive_first(plain)
        else:
            self._first += plain

    # -- sending -------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._send(data)

    def _send(self, data: bytes) -> None:
        if self._tls is not None and data:
            if self._is_closing:
                return  # The end of the session was announced: nothing may follow it.
            self._tls.send(data)
            data = self._tls.to_send()
        self._write_out(data)

    def _write_out(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def flush_soon(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        if self.grpc is not None and self._transport is not None:
            self.grpc.flush()

    @property
    def waiting_bytes(self) -> int:
        """How many written bytes couldn't be sent yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def refuse(self, words: str) -> None:
        """Close the connection and log the reason."""
        self._porch.note("grpc_connection_refused", self.peer, words)
        self.close()

    def close(self) -> None:
        if self._tls is not None and not self._is_closing:
            self._tls.end()
            self._write_out(self._tls.to_send())
        self._is_closing = True
        if self.closing_since is None:
            self.closing_since = self._porch.clock.uptime_ms()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
