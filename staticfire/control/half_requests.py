"""Close connections whose requests stay incomplete.

aiohttp waits for the rest of a request without a limit, so a few hundred incomplete requests could use up all file
descriptors. Each connection gets a timer here. The timer runs while a request is awaited or incomplete. It is stopped
while a request is processed, however long that takes.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from staticfire.control.unreadable import refuse_in_json

# The limit for the first byte of a connection, for the rest of a request line with its headers, and for a body.
HALF_REQUEST_S = 10.0


class HalfRequests:
    """Makes the protocols of a server's connections, and pauses their timers while a request is processed."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._connections: dict[object, TimedConnection] = {}

    def __call__(self) -> asyncio.Protocol:
        handler = self._server()
        refuse_in_json(handler)
        connection = TimedConnection(handler, lambda: self._connections.pop(handler, None))
        self._connections[handler] = connection
        return connection

    @contextmanager
    def answering(self, request: web.BaseRequest) -> Iterator[None]:
        """Stop the timer of a request's connection during the `with` block."""
        connection = self._connections.get(request.protocol)
        if connection is None:
            yield
            return
        connection.begin_answer()
        try:
            yield
        finally:
            connection.end_answer()


class TimedConnection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's handler, and watches the time."""

    def __init__(self, handler: asyncio.Protocol, when_lost: Callable[[], object]) -> None:
        self._handler = handler
        self._when_lost = when_lost
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answering = False
        # Whether bytes arrived while a request was processed: they may be the next request.
        self._has_more = False
        self._has_spoken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        self._has_spoken = True
        if self._is_answering:
            self._has_more = True
        else:
            self._start_timer()
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._transport = None
        self._when_lost()
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def begin_answer(self) -> None:
        """Note that a request is complete, apart from its body."""
        self._is_answering = True
        self._has_more = False
        self._stop_timer()

    def end_answer(self) -> None:
        self._is_answering = False
        if self._has_more:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None and self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(HALF_REQUEST_S, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._transport is not None:
            if self._has_spoken:
                self._transport.write(_too_slow(HALF_REQUEST_S))
            self._transport.close()


def _too_slow(limit_s: float) -> bytes:
    """Return the response to a request that stayed incomplete for that long."""
    body = b'{"error": "the request was incomplete after %.0f seconds"}\n' % limit_s
    head = b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
