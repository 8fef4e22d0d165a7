"""TLS at the port of the control endpoint: with the certificate, the mode and the limits of the cluster's ports."""

import asyncio
from collections.abc import Callable
from functools import partial

from staticfire.runtime.log import logger
from staticfire.runtime.machine import Workers
from staticfire.runtime.repeated_lines import RepeatedLines
from staticfire.runtime.tls.first_byte import FirstByte
from staticfire.runtime.tls.port import TlsContexts, TlsPort
from staticfire.runtime.tls.settings import ENFORCING, TlsSettings

log = logger("control")

_WORDS = b'{"error": "this endpoint takes only TLS: use https (tls.server.mode=enforcing)"}\n'
ONLY_TLS = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    % (len(_WORDS), _WORDS)
)


class TlsDoor:
    """Makes connections that begin with TLS or, if the mode allows it, with plain text."""

    def __init__(self, settings: TlsSettings, workers: Workers) -> None:
        self._settings = settings
        self._workers = workers
        self._port: TlsPort | None = None
        self._lines = RepeatedLines(_report)
        self._waiting: set[FirstByte] = set()

    @property
    def is_needed(self) -> bool:
        """Whether plain text is refused."""
        return self._settings.tls_server_mode == ENFORCING

    def door(self, make_inner: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of each connection."""
        mode = self._settings.tls_server_mode
        return partial(FirstByte, make_inner, mode, self._open, self._refused, ONLY_TLS, self._waiting)

    def _open(self) -> TlsPort:
        if self._port is None:
            self._port = TlsPort(TlsContexts(self._settings, self._workers), self._refused)
        return self._port

    def _refused(self, address: str, reason: str) -> None:
        self._lines.note("tls_refused", address, reason)

    def close(self) -> None:
        """Close the connections that haven't begun, because aiohttp doesn't know them."""
        for connection in list(self._waiting):
            connection.abort()
        if self._port is not None:
            self._port.close()
        self._lines.close()


def _report(event: str, address: str, reason: str, connections: int) -> None:
    log.warning(event, peer=address, reason=reason, connections=connections)
