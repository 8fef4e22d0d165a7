"""A network whose connections to others speak TLS. Ports stay as they are: a server decides by the first byte.

The files are checked for changes at each connect (FileContext): a program must survive a reconnect while they are
renewed.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from staticfire.runtime.machine import Listener, Network
from staticfire.runtime.pending_answers import deadline
from staticfire.runtime.reach import Surroundings
from staticfire.runtime.tls.contexts import FileContext, client_context
from staticfire.runtime.tls.layer import TLS_FAILURE, TlsLayer
from staticfire.runtime.tls.session import TlsFailed, TlsSession
from staticfire.runtime.tls.settings import TlsClient

NO_WORDS = "disconnected during the handshake"
HINT = (
    "the server closed the connection during the handshake, as a port without TLS does (tls.server.mode=disabled): "
    "turn TLS off, or use a port that speaks it"
)


class TlsNetwork:
    """Connects through TLS."""

    def __init__(self, network: Network, tls: TlsClient) -> None:
        self.plain = network
        """The network without TLS."""
        paths = (tls.trust_cert_path, tls.cert_path, tls.key_path)
        meanwhile = "new connections use the files from before until these can be used"
        self._files = FileContext(partial(client_context, tls), paths, meanwhile)

    def check(self) -> None:
        """Load the files, if there are any, because a wrong one must prevent a start. Raises: UsageError."""
        self._files.current()

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> Listener:
        return await self.plain.listen(factory, host, port, sock)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        """Connect, and return when the handshake is complete.

        Raises: OSError, TimeoutError, UsageError (a file can't be used, and none could be before).
        """
        try:
            session = TlsSession(self._files.current(), is_server=False, host=host)
        except ValueError as error:
            raise OSError(f"{host!r}:{port}: not a host: {error}") from None
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()

        def settled(_: TlsLayer, failed: TlsFailed | None) -> None:
            if not opened.done():
                opened.set_result(None) if failed is None else opened.set_exception(failed)

        layer = TlsLayer(factory(), settled)
        until_s = loop.time() + timeout_ms / 1_000
        await self.plain.connect(lambda: layer, host, port, timeout_ms)
        left_s = until_s - loop.time()
        try:
            layer.begin(session)
            # Nothing is left if the deadline of the connection was extended.
            async with deadline(left_s if left_s > 0 else timeout_ms / 1_000):
                await opened
            if (refusal := layer.get_extra_info(TLS_FAILURE)) is not None:
                raise refusal  # It arrived right after the handshake: the server rejects our certificate.
        except TlsFailed as failed:
            words = f"TLS: {HINT}" if NO_WORDS in str(failed) else str(failed)
            raise ConnectionError(f"{host}:{port}: {words}") from None
        except BaseException as error:
            layer.abort()
            if isinstance(error, TimeoutError):
                words = f"{host}:{port}: TLS: the handshake isn't complete within {timeout_ms} ms"
                raise TimeoutError(f"{words}; the server may be busy, or speak no TLS") from None
            raise
        return layer

    def surroundings(self) -> Surroundings:
        return self.plain.surroundings()
