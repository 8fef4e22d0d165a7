"""The handler of each request code, and what happens if a handler fails.

A handler returns its response; or it returns None and responds later through `Call.answer` (a held pull, a sync flush);
or it is a coroutine function, which runs in a task. An exception that a handler raises becomes an error response.
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
    """Records all received data, read by read. These calls must take next to no time."""

    note: Callable[[Any], object]
    """Stores what `make` returned."""
    make: Callable[[int, str | None, Peer, int, bytes], Any]
    """Makes a record of time, client id, peer, number of earlier bytes not yet handled, and data of one read."""
    uptime_ns: Callable[[], int]


_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Interceptor(Protocol):
    """Intercepts all requests, and all bytes that are sent."""

    def guard(self, code: int, handler: Handler) -> Handler:
        """Return the handler that replaces the handler of a request code."""

    def outlet(self, connection: "Connection", transport: asyncio.Transport) -> asyncio.Transport:
        """Return the object that a connection writes to instead of its transport."""


class Call(msgspec.Struct, gc=False):
    """One request that is being handled."""

    request: Any
    opaque: int
    oneway: bool
    codec: Codec
    connection: "Connection"

    @property
    def peer(self) -> Peer:
        return self.connection.peer

    def answer(self, answer: Answer) -> None:
        """Respond now: for handlers that returned None. Does nothing for a one-way call or a lost connection."""
        if not self.oneway:
            self.connection.send_answer(self, answer)


class Dispatcher:
    """The handlers by request code, for all connections of a server or a client."""

    def __init__(
        self,
        settle: Callable[[], None] | None = None,
        tap: Tap | None = None,
    ) -> None:
        """`settle` runs after each burst. `tap` gets all received bytes."""
        self.tap = tap
        self.routes = Routes()
        self.settle = settle
        self.heard_last: Connection | None = None
        """The connection of the last burst. If it sends the next burst as well, it is the only busy one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._interceptor: Interceptor | None = None

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Pass all requests, and all bytes of new connections, through an interceptor from now on; None: stop that."""
        self._interceptor = interceptor
        self.routes.guard(None if interceptor is None else interceptor.guard)

    @property
    def is_intercepted(self) -> bool:
        """Whether all requests pass through an interceptor."""
        return self._interceptor is not None

    def take_over(self, others: "Dispatcher") -> None:
        """Replace the handlers by those of another dispatcher, for open connections as well."""
        self.tap = others.tap
        self.settle = others.settle
        self.routes.take_over(others.routes)

    def outlet(self, connection: "Connection", transport: asyncio.Transport) -> asyncio.Transport:
        """Return the object that a new connection writes to."""
        return transport if self._interceptor is None else self._interceptor.outlet(connection, transport)

    def handle_late(self, handler: Handler, call: Call) -> None:
        """Handle a request long after the read that contained it, and settle."""
        try:
            answer = handler(call)
        except Exception as error:  # noqa: BLE001 (any failure of a handler becomes its response)
            answer = failure(error, call)
        if answer is not None:
            call.answer(answer)
        if self.settle is not None:
            self.settle()

    def handle(self, code: int, handler: Handler | AsyncHandler) -> None:
        """Register a handler for a request code. Raises: ValueError if the code already has one."""
        filed = self._in_task(cast(AsyncHandler, handler)) if iscoroutinefunction(handler) else cast(Handler, handler)
        self.routes.add(int(code), filed)

    def precede(self, code: int, before: Callable[[Handler], Handler]) -> None:
        """Run another handler first: `before` makes it from the registered one. Not allowed while serving."""
        self.routes.handlers[int(code)] = before(self.routes.handlers[int(code)])

    def start(self, handler: AsyncHandler, call: Call) -> None:
        """Handle a request in a separate task."""
        task = asyncio.get_running_loop().create_task(self._run(handler, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _in_task(self, handler: AsyncHandler) -> Handler:
        return partial(self.start, handler)

    async def _run(self, handler: AsyncHandler, call: Call) -> None:
        try:
            answer = await handler(call)
        except Exception as error:  # noqa: BLE001 (any failure of a handler becomes its response)
            answer = failure(error, call)
        if answer is not None:
            call.answer(answer)

    async def finish(self, wait_ms: int) -> None:
        """Wait for the running tasks of handlers, up to a limit, then `close`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=wait_ms / 1000)
        await self.close()

    async def close(self) -> None:
        """Cancel the running tasks of handlers, and wait until they end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def failure(error: Exception, call: Call) -> Answer:
    """Return the response if a handler raised: the code of a refusal, or SYSTEM_ERROR with the error's name."""
    if isinstance(error, BrokerAnswer):
        return refusal(error.code, error.remark)
    if isinstance(error, ProtocolError):
        # The request turned out to be invalid while it was handled.
        return refusal(_SYSTEM_ERROR, str(error))
    log.error("handler_failed", request=type(call.request).__name__, peer=call.peer.address, error=repr(error))
    if isinstance(error, StorageError):
        return refusal(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    return refusal(_SYSTEM_ERROR, f"{type(error).__name__}: {error}")
