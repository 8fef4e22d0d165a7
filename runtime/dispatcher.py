"""Who handles which request, and what becomes of a handler that fails.

A handler returns its answer, or None and answers later through `Call.answer` (a held pull, a sync flush), or is a
coroutine function, for which a task is made. What a handler raises becomes an error answer.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import msgspec

from staticfire.protocol.codecs import Codec
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.frame_reader import Peer, Routes
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from staticfire.runtime.connection import Connection

log = logger("connection")

Handler = Callable[["Call"], Answer | None]
AsyncHandler = Callable[["Call"], Coroutine[Any, Any, Answer | None]]


class Tap(NamedTuple):
    """Where all that comes in is noted, read by read. Calls that take next to no time."""

    note: Callable[[Any], object]
    """Takes what `make` has made."""
    make: Callable[[int, str | None, Peer, int, bytes], Any]
    """Of when, client id, peer, how many bytes of before aren't handled yet, and what one read has brought."""
    uptime_ns: Callable[[], int]


_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Interceptor(Protocol):
    """Stands in the way of all requests, and of all bytes that leave."""

    def guard(self, code: int, handler: Handler) -> Handler:
        """Return who handles requests of a code in place of who does."""

    def outlet(self, connection: "Connection", transport: asyncio.Transport) -> asyncio.Transport:
        """Return what a connection writes to in place of its transport."""


class Call(msgspec.Struct, gc=False):
    """One request on its way through a handler."""

    request: Any
    opaque: int
    oneway: bool
    codec: Codec
    connection: "Connection"

    @property
    def peer(self) -> Peer:
        return self.connection.peer

    def answer(self, answer: Answer) -> None:
        """Answer now: for handlers that returned None. Nothing happens for a one-way call or a lost connection."""
        if not self.oneway:
            self.connection.send_answer(self, answer)


class Dispatcher:
    """Who handles which request code, for all connections of a server or client."""

    def __init__(
        self,
        settle: Callable[[], None] | None = None,
        tap: Tap | None = None,
    ) -> None:
        """`settle` runs after each burst. `tap` hears of all bytes that come in."""
        self.tap = tap
        self.routes = Routes()
        self.settle = settle
        self.heard_last: Connection | None = None
        """Whom the last burst came from: who is heard twice in a row is the only one who is busy."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._interceptor: Interceptor | None = None

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Have all requests pass by somebody from now on, and all bytes of new connections; None: by nobody again."""
        self._interceptor = interceptor
        self.routes.guard(None if interceptor is None else interceptor.guard)

    @property
    def is_intercepted(self) -> bool:
        """Whether all requests pass by somebody."""
        return self._interceptor is not None

    def take_over(self, others: "Dispatcher") -> None:
        """Let the handlers of others take the place of these, for all connections that are open, too."""
        self.tap = others.tap
        self.settle = others.settle
        self.routes.take_over(others.routes)

    def outlet(self, connection: "Connection", transport: asyncio.Transport) -> asyncio.Transport:
        """Return what a new connection writes to."""
        return transport if self._interceptor is None else self._interceptor.outlet(connection, transport)

    def handle_late(self, handler: Handler, call: Call) -> None:
        """Handle a request long after the read that has brought it, and settle."""
        try:
            answer = handler(call)
        except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
            answer = failure(error, call)
        if answer is not None:
            call.answer(answer)
        if self.settle is not None:
            self.settle()

    def handle(self, code: int, handler: Handler | AsyncHandler) -> None:
        """File a handler under its request code. Raises: ValueError when the code has one."""
        filed = self._in_task(cast(AsyncHandler, handler)) if iscoroutinefunction(handler) else cast(Handler, handler)
        self.routes.add(int(code), filed)

    def precede(self, code: int, before: Callable[[Handler], Handler]) -> None:
        """Let another handler have a request first: `before` makes it of the one that is filed. Not while serving."""
        self.routes.handlers[int(code)] = before(self.routes.handlers[int(code)])

    def start(self, handler: AsyncHandler, call: Call) -> None:
        """Handle a request in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._run(handler, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _in_task(self, handler: AsyncHandler) -> Handler:
        return partial(self.start, handler)

    async def _run(self, handler: AsyncHandler, call: Call) -> None:
        try:
            answer = await handler(call)
        except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
            answer = failure(error, call)
        if answer is not None:
            call.answer(answer)

    async def finish(self, wait_ms: int) -> None:
        """Wait for the handlers that still wait, then `close`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=wait_ms / 1000)
        await self.close()

    async def close(self) -> None:
        """Cancel the handlers that still wait, and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def failure(error: Exception, call: Call) -> Answer:
    """Return the answer that tells of an exception: a refusal's own code, or SYSTEM_ERROR with its name."""
    if isinstance(error, BrokerAnswer):
        return refusal(error.code, error.remark)
    if isinstance(error, ProtocolError):
        return refusal(_SYSTEM_ERROR, str(error))  # What was asked made no sense after all.
    log.error("handler_failed", request=type(call.request).__name__, peer=call.peer.address, error=repr(error))
    if isinstance(error, StorageError):
        return refusal(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    return refusal(_SYSTEM_ERROR, f"{type(error).__name__}: {error}")
