"""TLS between a transport and a protocol: to the transport it is the protocol, to the protocol it is the transport.

    socket <-> asyncio's transport <-> TlsLayer (a TlsSession) <-> Connection

A server's layer is put in when the first byte of a connection is that of TLS. A client's layer is there from the
beginning, and its protocol is connected when the handshake is complete.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from staticfire.runtime.tls.session import TlsFailed, TlsSession

# The header of a TLS record: kind, version, length.
RECORD_HEAD_BYTES = 5
# The kind of the first message in a record of a handshake.
CLIENT_HELLO = 1
RECORD_BYTES_MAX = 16 * 1024
# The size of a client's first bytes, which are buffered until its first message is complete and its session begins.
# After that message a client waits for the server's.
HELLO_BYTES_MAX = 20 * 1024

TLS_FAILURE = "tls_failure"
"""The name of the extra information of a transport: why its TLS failed, or None."""
Settled = Callable[["TlsLayer", TlsFailed | None], None]


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The TLS of one connection."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        settled: Settled,
        greeted: Callable[["TlsLayer"], None] | None = None,
        is_connected: bool = False,
    ) -> None:
        """`settled` is called once: with None when the handshake is complete, or with the failure.

        `greeted`: for a server; it is called when the client's first message is complete, and calls `begin`.
        `is_connected`: whether `inner` was connected to the transport before.
        """
        super().__init__()
        self._inner = inner
        self._settled: Settled | None = settled
        self._greeted = greeted
        self._is_inner_connected = is_connected
        self._wire: asyncio.Transport | None = None
        self._session: TlsSession | None = None
        self._first = b""
        self._failure: TlsFailed | None = None
        self._is_closing = False

    # -- the beginning -------------------------------------------------------------------------------------------

    def take_over(self, wire: asyncio.Transport, first: bytes) -> None:
        """Begin at a server, after `first` was received."""
        self._wire = wire
        wire.set_protocol(self)
        self.data_received(first)

    def begin(self, session: TlsSession) -> None:
        """Start the handshake, unless the connection is closed by now."""
        if self._settled is None or self._is_closing:
            return
        self._session = session
        first, self._first = self._first, b""
        self._receive(first)

    # -- the side of the network ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            self._receive(data)
            return
        self._first += data
        if len(self._first) > HELLO_BYTES_MAX:
            self.fail("TLS: the client's first message is too long")
        elif self._greeted is not None and is_whole(self._first):
            greeted, self._greeted = self._greeted, None
            greeted(self)

    def _receive(self, data: bytes) -> None:
        assert self._session is not None
        try:
            plain = self._session.receive(data)
        except TlsFailed as failed:
            self._write_out()  # The alert that reports the failure.
            self._end(failed)
            return
        self._write_out()
        if self._settled is not None and self._session.is_open:
            self._settle(None)
            if not self._is_inner_connected:
                self._is_inner_connected = True
                self._inner.connection_made(self)
        if plain and not self._is_closing:
            self._inner.data_received(plain)

    def fail(self, words: str) -> None:
        """Give up."""
        self._end(TlsFailed(words))

    def _end(self, failed: TlsFailed) -> None:
        self._failure = failed
        self._is_closing = True
        self._settle(failed)
        if self._wire is not None:
            self._wire.close()
        self._end_of_input()

    def _end_of_input(self) -> None:
        """Tell the protocol that the connection is being closed, because it limits how long that takes."""
        if self._is_inner_connected:
            self._inner.eof_received()

    def _settle(self, outcome: TlsFailed | None) -> None:
        settled, self._settled = self._settled, None
        if settled is not None:
            settled(self, outcome)

    def eof_received(self) -> bool | None:
        self._end_of_input()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._first = b""
        if self._settled is not None:
            words = "it may have rejected the certificate or the host name"
            self._settle(TlsFailed(f"TLS: the peer disconnected during the handshake; {words}"))
        if self._is_inner_connected:
            self._inner.connection_lost(self._failure or exc)
        self._wire = None

    def pause_writing(self) -> None:
        if self._is_inner_connected:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_inner_connected:
            self._inner.resume_writing()

    # -- the side of the protocol --------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._session is not None and data and not self._is_closing:
            self._session.send(data)
            self._write_out()

    def _write_out(self) -> None:
        assert self._session is not None
        data = self._session.to_send()
        if data and self._wire is not None:
            self._wire.write(data)

    def close(self) -> None:
        if self._session is not None and self._session.is_open and not self._is_closing:
            self._session.end()
            self._write_out()
        self._is_closing = True
        if self._wire is not None:
            self._wire.close()

    def abort(self) -> None:
        self._is_closing = True
        if self._wire is not None:
            self._wire.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._wire is None or self._wire.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == TLS_FAILURE:
            return self._failure
        if self._session is not None and name in ("ssl_object", "sslcontext"):
            return self._session.ssl_object if name == "ssl_object" else self._session.ssl_object.context
        return default if self._wire is None else self._wire.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if self._wire is not None:
            self._wire.pause_reading()

    def resume_reading(self) -> None:
        if self._wire is not None:
            self._wire.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._wire is not None:
            self._wire.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._wire is None else self._wire.get_write_buffer_size()


def is_whole(first: bytes) -> bool:
    """Return whether the client's first message is complete, or OpenSSL will refuse it.

    Until then no session is made, because it takes memory.
    """
    if len(first) <= RECORD_HEAD_BYTES:
        return first[1:2] not in (b"", b"\x03")
    size = int.from_bytes(first[3:5], "big")
    is_strange = first[1] != 3 or first[RECORD_HEAD_BYTES] != CLIENT_HELLO or size > RECORD_BYTES_MAX
    return is_strange or len(first) >= RECORD_HEAD_BYTES + size
