"""The pops that a simple consumer has sent, including those whose `receive` was cancelled before the response.

A broker doesn't notice a cancelled `receive`: it continues to hold the pop, and delivers the next message to it. So
each response must be used: by the `receive` that waits for it, or by the next one with the same parameters, which waits
for it instead of sending another pop. If there is none when the response arrives, its messages are put back, and
redelivered at once.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from staticfire.protocol.command import Answer, Request
from staticfire.runtime.connection import Connection
from staticfire.runtime.pending_answers import Reply


class PopUnderWay:
    """One pop that was sent."""

    __slots__ = ("connection", "terms", "waiter")

    def __init__(self, connection: Connection, terms: tuple[Any, ...]) -> None:
        """`terms`: the parameters of the pop; the broker is the first."""
        self.connection = connection
        self.terms = terms
        self.waiter: asyncio.Future[Reply] | None = None
        """The future of the `receive` that waits for the response."""


HandBack = Callable[[PopUnderWay, Answer], None]


class PopsUnderWay:
    """The pops of one consumer. It uses the running event loop."""

    def __init__(self, hand_back: HandBack) -> None:
        """`hand_back`: puts the messages of a response back."""
        self._hand_back = hand_back
        self._loop = asyncio.get_running_loop()
        self._left: dict[PopUnderWay, None] = {}
        """The pops whose response no `receive` waits for."""

    def find(self, terms: tuple[Any, ...]) -> PopUnderWay | None:
        """Return a pop with these terms whose response no `receive` waits for."""
        for pop in self._left:
            if pop.terms == terms and pop.connection.is_open:
                return pop
        return None

    def send(self, connection: Connection, request: Request, timeout_ms: int, terms: tuple[Any, ...]) -> PopUnderWay:
        """Send a pop. Call `answer` next, without an `await` in between. Raises: NetworkError."""
        pop = PopUnderWay(connection, terms)
        self._left[pop] = None
        try:
            connection.ask_for(request, timeout_ms, lambda reply: self._answered(pop, reply))
        except BaseException:
            del self._left[pop]
            raise
        connection.flush()
        return pop

    async def answer(self, pop: PopUnderWay, wait_ms: int | None = None) -> Answer | None:
        """Return the response to a pop; None if it takes longer than `wait_ms`. Raises: StaticfireError."""
        del self._left[pop]
        waiter = pop.waiter = self._loop.create_future()
        try:
            if wait_ms is None:
                await waiter
            else:
                await asyncio.wait([waiter], timeout=wait_ms / 1000)
        except BaseException:
            self._leave(pop, waiter)
            raise
        if not waiter.done():
            self._leave(pop, waiter)
            return None
        reply = waiter.result()
        if isinstance(reply, Answer):
            return reply
        raise reply

    def _leave(self, pop: PopUnderWay, waiter: asyncio.Future[Reply]) -> None:
        """Stop waiting. The response may have arrived at the same moment."""
        pop.waiter = None
        self._left[pop] = None
        if waiter.done() and not waiter.cancelled():
            self._answered(pop, waiter.result())

    def _answered(self, pop: PopUnderWay, reply: Reply) -> None:
        waiter = pop.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(reply)
        elif waiter is None or waiter.cancelled():
            self._left.pop(pop, None)
            if isinstance(reply, Answer):
                self._hand_back(pop, reply)
