"""TLS at the port of the control endpoint: with the certificate, the mode and the limits of the cluster's ports."""

import asyncio
from collections.abc import Callable
from functools import partial

from staticfire.runtime.log import logger
from staticfire.runtime.machine import Workers
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

    @property
    def is_needed(self) -> bool:
        """Whether plain text is refused."""
        return self._settings.tls_server_mode == ENFORCING

    def door(self, make_inner: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of each connection."""
        return partial(FirstByte, make_inner, self._settings.tls_server_mode, self._open, _refused, ONLY_TLS)

    def _open(self) -> TlsPort:
        if self._port is None:
            self._port = TlsPort(TlsContexts(self._settings, self._workers), _refused)
        return self._port

    def close(self) -> None:
        """Stop making a certificate."""
        if self._port is not None:
            self._port.close()


def _refused(address: str, reason: str) -> None:
    log.warning("tls_refused", peer=address, reason=reason)
