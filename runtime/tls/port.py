"""TLS at the ports of one server: which connections may use what, the certificate, the limits of handshakes.

Behaviour: a worker makes the certificate when the first client speaks TLS; clients wait for it. At each handshake the
files are checked for changes (FileContext), so a renewed certificate is used from the next connection on; open
connections keep theirs.
RocketMQ checks the files every 500 ms, and loads them only if both certificate and key have changed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from ssl import SSLContext
from typing import NamedTuple

from staticfire.protocol.errors import UsageError
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Workers
from staticfire.runtime.tls.contexts import FileContext, server_context
from staticfire.runtime.tls.layer import TlsLayer
from staticfire.runtime.tls.session import TlsFailed, TlsSession
from staticfire.runtime.tls.settings import TlsSettings

log = logger("tls")

# The number of connections whose handshake isn't complete. With one more, the oldest of them is closed.
HANDSHAKES_MAX = 500
# The number of them for which OpenSSL has a session. It takes 43 KiB until the handshake is complete: two buffers of a
# whole record, which Python can't make smaller. The others wait with their first message, which takes 2 KiB, so that
# all together take less than 20 MiB.
SESSIONS_MAX = 384
# The time from the first byte of a client to the end of its handshake.
HANDSHAKE_MS_MAX = 10_000
# A client whose handshake takes longer than this loses its session to one that waits, if all are in use.
SLOW_S = 3.0

ContextOrError = SSLContext | UsageError
Refused = Callable[[str, str], None]
"""Called with the address and the reason of each connection that is closed because of TLS."""


class TlsContexts:
    """The context of a server, made when it is first needed, and made again when its files have changed."""

    def __init__(self, settings: TlsSettings, workers: Workers, alpn: Sequence[str] = ()) -> None:
        self._settings = settings
        self._workers = workers
        self._alpn = alpn
        self._context: SSLContext | None = None
        self._making: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[ContextOrError], None]] = []
        self._files = self._made_of_files() if settings.reads_files else None

    def check(self) -> None:
        """Load the files, if there are any, because a wrong one must prevent the start. Raises: UsageError."""
        if self._files is not None:
            self._context = self._files.current()

    def _made_of_files(self) -> FileContext:
        settings = self._settings
        own = () if settings.makes_certificate else (settings.tls_server_cert_path, settings.tls_server_key_path)
        paths = (*own, settings.tls_server_trust_cert_path)
        meanwhile = "the certificate from before is served until both files fit"
        return FileContext(partial(server_context, settings, self._alpn), paths, meanwhile)

    def when_ready(self, act: Callable[[ContextOrError], None]) -> None:
        """Call `act` with the context, or with the error of its creation: now, or when it is created."""
        if self._context is not None:
            self._look_again()
            act(self._context)
            return
        self._waiting.append(act)
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make(), name="tls_certificate")

    def _look_again(self) -> None:
        """Load the files if they have changed."""
        if self._files is None:
            return
        before, self._context = self._context, self._files.current()
        if self._context is not before:
            log.info("tls_reloaded", files=self._files.paths)

    async def _make(self) -> None:
        outcome: ContextOrError
        try:
            outcome = self._context = await self._workers.run(server_context, self._settings, self._alpn)
        except UsageError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 (whatever fails: clients wait for it, and the next one tries again)
            words = str(error) if isinstance(error, OSError) else repr(error)
            outcome = UsageError(f"TLS: making a certificate failed: {words}")
        finally:
            self._making = None
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            act(outcome)

    def close(self) -> None:
        """Stop making a certificate."""
        if self._making is not None:
            self._making.cancel()


class Handshake(NamedTuple):
    """One that isn't complete."""

    address: str
    deadline: asyncio.TimerHandle


class TlsPort:
    """Puts layers between connections and their transports.

    A handshake takes milliseconds, so a client with an old one is slow, or holds it on purpose. If all sessions are in
    use, a new client waits until the oldest one is slow, and gets that session: clients that connect at the same moment
    don't end each other's handshakes. Of those that wait, the newest is served first, because the others may be there
    to fill the queue.
    """

    def __init__(self, contexts: TlsContexts, refused: Refused) -> None:
        self._contexts = contexts
        self._refused = refused
        self._handshakes: OrderedDict[TlsLayer, Handshake] = OrderedDict()
        self._sessions: dict[TlsLayer, float] = {}
        """When each of them began, by the loop's clock; the oldest is the first."""
        self._waiting: dict[TlsLayer, None] = {}
        self._is_serving = False
        self._next_look: asyncio.TimerHandle | None = None

    def admit(
        self, inner: asyncio.Protocol, wire: asyncio.Transport, address: str, first: bytes, is_connected: bool = True
    ) -> TlsLayer:
        """Begin TLS on a connection whose first bytes are `first`; return the transport of its protocol.

        `is_connected`: whether its protocol was connected before; otherwise it is when the handshake is complete.
        """
        if len(self._handshakes) >= HANDSHAKES_MAX:
            next(iter(self._handshakes)).fail(
                f"TLS: {HANDSHAKES_MAX} handshakes are incomplete, and this is the oldest"
            )
        layer = TlsLayer(inner, self._settled, self._greeted, is_connected)
        deadline = asyncio.get_running_loop().call_later(HANDSHAKE_MS_MAX / 1_000, self._expired, layer)
        self._handshakes[layer] = Handshake(address, deadline)
        layer.take_over(wire, first)
        return layer

    def _greeted(self, layer: TlsLayer) -> None:
        """Begin the session of a client whose first message is complete, or let it wait."""
        self._waiting[layer] = None
        self._serve()
        self._end_slow()

    def _end_slow(self) -> None:
        """End slow handshakes while others wait, now or when the oldest one is slow. The newest client comes first."""
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._sessions) >= SESSIONS_MAX:
            oldest = next(iter(self._sessions))
            left_s = self._sessions[oldest] + SLOW_S - loop.time()
            if left_s > 0:
                self._next_look = self._next_look or loop.call_later(left_s, self._look)
                return
            oldest.fail(f"TLS: {SESSIONS_MAX} handshakes are in progress, and this is the oldest")

    def _look(self) -> None:
        self._next_look = None
        self._end_slow()

    def _serve(self) -> None:
        """Begin the sessions of clients that wait, the newest first, up to the limit."""
        if self._is_serving:
            return  # A client in the loop below has failed at once; the loop continues with the next one.
        self._is_serving = True
        try:
            while self._waiting and len(self._sessions) < SESSIONS_MAX:
                layer, _ = self._waiting.popitem()
                self._sessions[layer] = asyncio.get_running_loop().time()
                self._contexts.when_ready(partial(_begin, layer))
        finally:
            self._is_serving = False

    def _expired(self, layer: TlsLayer) -> None:
        layer.fail(f"TLS: the handshake is incomplete after {HANDSHAKE_MS_MAX // 1_000} s")

    def _settled(self, layer: TlsLayer, failed: TlsFailed | None) -> None:
        handshake = self._handshakes.pop(layer)
        handshake.deadline.cancel()
        self._waiting.pop(layer, None)
        if failed is not None:
            self._refused(handshake.address, str(failed))
        if self._sessions.pop(layer, None) is not None:
            self._serve()

    def close(self) -> None:
        """End the handshakes that aren't complete; all other connections are closed by their owners."""
        self._contexts.close()
        self._waiting.clear()
        if self._next_look is not None:
            self._next_look.cancel()
        for layer, handshake in list(self._handshakes.items()):
            handshake.deadline.cancel()
            layer.abort()


def _begin(layer: TlsLayer, context: ContextOrError) -> None:
    if isinstance(context, UsageError):
        layer.fail(str(context))
    else:
        layer.begin(TlsSession(context))
