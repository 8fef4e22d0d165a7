"""Request piece after piece of the log while nothing special happens, each within the read of the one before.

A task would continue one turn of the event loop later, and write its request another turn later. With a synchronous
master, producers wait for both: a run takes a third less of the slave's time for a short piece.
"""

import asyncio
from collections.abc import Callable

from staticfire.protocol.command import Answer, Request
from staticfire.runtime.connection import Connection
from staticfire.runtime.pending_answers import Reply


class CopyRun:
    """The requests of a slave to its master, until a response must be handled by its loop."""

    def __init__(self, handle: Callable[[Answer], Request | None], timeout_ms: int) -> None:
        """`handle` takes a response and returns the next request; None: it has not taken it, and the run ends."""
        self._handle = handle
        self._timeout_ms = timeout_ms

    async def ask(self, connection: Connection, request: Request) -> Answer:
        """Return the response that ends the run. Raises: what asking and handling raise."""
        ending: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._ask(connection, request, ending)
        return await ending

    def _ask(self, connection: Connection, request: Request, ending: asyncio.Future[Answer]) -> None:
        connection.ask_for(request, self._timeout_ms, lambda reply: self._responded(connection, reply, ending))
        connection.flush()

    def _responded(self, connection: Connection, reply: Reply, ending: asyncio.Future[Answer]) -> None:
        if ending.done():
            return  # The loop has given up: this broker stops, or may confirm nothing any more.
        if not isinstance(reply, Answer):
            ending.set_exception(reply)
            return
        try:
            request = self._handle(reply)
            if request is None:
                ending.set_result(reply)
            else:
                self._ask(connection, request, ending)
        except Exception as error:  # noqa: BLE001 (the loop handles it)
            ending.set_exception(error)
