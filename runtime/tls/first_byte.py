"""A connection to a port of HTTP: its first byte decides whether TLS is removed before aiohttp sees it.

socket -> FirstByte -> (TlsLayer) -> the protocol that is served
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from staticfire.protocol.first_bytes import TLS_HANDSHAKE
from staticfire.runtime.addresses import format_address, plain_host
from staticfire.runtime.tls.settings import DISABLED, ENFORCING

if TYPE_CHECKING:
    from staticfire.runtime.tls.port import TlsPort

# The time for the first byte of a connection.
FIRST_BYTE_S = 10.0


class FirstByte(asyncio.Protocol):
    """One connection, until its protocol is known."""

    def __init__(
        self,
        make_inner: Callable[[], asyncio.Protocol],
        mode: str,
        port: "Callable[[], TlsPort]",
        refused: Callable[[str, str], None],
        plain_answer: bytes,
    ) -> None:
        """`plain_answer`: sent to a client that speaks plain text although `mode` is enforcing."""
        self._make_inner = make_inner
        self._mode = mode
        self._port = port
        self._refused = refused
        self._plain_answer = plain_answer
        self._wire: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._deadline = asyncio.get_running_loop().call_later(FIRST_BYTE_S, self._wire.abort)

    def data_received(self, data: bytes) -> None:
        wire = self._wire
        if wire is None or wire.is_closing():
            return
        self._stop_timer()
        host, port = (wire.get_extra_info("peername") or ("?", 0))[:2]
        address = format_address(plain_host(host), port)
        is_tls = data[0] == TLS_HANDSHAKE
        if is_tls and self._mode == DISABLED:
            self._refuse(wire, address, "TLS on a port where tls.server.mode=disabled: use http", b"")
        elif is_tls:
            self._port().admit(self._make_inner(), wire, address, data, is_connected=False)
        elif self._mode == ENFORCING:
            self._refuse(wire, address, "plain text on an enforcing port: use https", self._plain_answer)
        else:
            inner = self._make_inner()
            wire.set_protocol(inner)
            inner.connection_made(wire)
            inner.data_received(data)

    def _refuse(self, wire: asyncio.Transport, address: str, reason: str, answer: bytes) -> None:
        wire.write(answer)
        wire.close()
        self._refused(address, reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._wire = None

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
