"""Pops that a simple consumer has sent, with those whose `receive` was cancelled before the answer came.

A broker doesn't hear of a cancelled `receive`: it holds the pop on, and hands it the next message. So an answer always
has a taker: the `receive` that waits for it, or the next one that wants the same, which waits for it instead of sending
another pop. If there is none when the answer comes, its messages are handed back, and are redelivered at once.
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
        """`terms`: what was asked for; the broker comes first."""
        self.connection = connection
        self.terms = terms
        self.waiter: asyncio.Future[Reply] | None = None
        """Of the `receive` that waits for the answer."""


HandBack = Callable[[PopUnderWay, Answer], None]


class PopsUnderWay:
    """Those of one consumer. Lives in the running event loop."""

    def __init__(self, hand_back: HandBack) -> None:
        """`hand_back`: lets the messages of an answer be redelivered."""
        self._hand_back = hand_back
        self._loop = asyncio.get_running_loop()
        self._left: dict[PopUnderWay, None] = {}
        """Nothing waits for their answers."""

    def find(self, terms: tuple[Any, ...]) -> PopUnderWay | None:
        """Return a pop with these terms whose answer nothing waits for."""
        for pop in self._left:
            if pop.terms == terms and pop.connection.is_open:
                return pop
        return None

    def send(self, connection: Connection, request: Request, timeout_ms: int, terms: tuple[Any, ...]) -> PopUnderWay:
        """Send a pop; `answer` has to follow without waiting between. Raises: NetworkError."""
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
        """Return the answer to a pop, None when it takes longer than `wait_ms`. Raises: StaticfireError."""
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
        """Wait no more. The answer may have come in the same moment."""
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
