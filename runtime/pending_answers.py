"""The requests of one connection that wait for a response, each until its own deadline.

All of them share one timer. Nearly every response arrives long before its deadline, and a separate timer would be a
fifth of a request's cost.

A timer that fires late shows that this process couldn't run: its machine was overloaded or frozen, or something blocked
the event loop. Then the response may wait in the socket, or its sender couldn't run, either. So deadlines that have
passed meanwhile are extended once, by the time that the process was late.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec

from staticfire.protocol.command import Answer, Shape
from staticfire.protocol.errors import NetworkError, ProtocolError

Reply: TypeAlias = Answer | NetworkError | ProtocolError
"""The outcome of a request: a response, or the error that prevented one."""

# A timer of a busy process may be this late.
LATE_S = 0.25
EXTENSION_MAX_S = 10.0


def extension_s(late_s: float) -> float:
    """Return by how much a deadline is extended whose timer was this late; 0: not at all."""
    return min(late_s, EXTENSION_MAX_S) if late_s > LATE_S else 0.0


@asynccontextmanager
async def deadline(timeout_s: float) -> AsyncIterator[None]:
    """Limit the time of the `with` block, as asyncio.timeout does; a late timer extends it. Raises: TimeoutError."""
    loop = asyncio.get_running_loop()
    due_s = loop.time() + max(timeout_s, 0.0)
    async with asyncio.timeout(None) as limit:

        def ring() -> None:
            now_s = loop.time()
            limit.reschedule(now_s + extension_s(now_s - due_s))

        timer = loop.call_at(due_s, ring)
        try:
            yield
        finally:
            timer.cancel()


class PendingAnswer(msgspec.Struct, gc=False):
    """A request that waits: its callback, the expected response, and the deadline."""

    on_outcome: Callable[[Reply], None]
    shape: Shape
    name: str
    timeout_ms: int
    deadline_s: float
    is_extended: bool = False


class PendingAnswers:
    """The waiting requests of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[PendingAnswer], None]) -> None:
        """`expired` is called with each request whose deadline has passed, after its removal."""
        self._loop = loop
        self._expired = expired
        self._pending: dict[int, PendingAnswer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0

    def add(self, opaque: int, on_outcome: Callable[[Reply], None], shape: Shape, name: str, timeout_ms: int) -> None:
        """Add a request; `on_outcome` is called with its outcome."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        self._pending[opaque] = PendingAnswer(on_outcome, shape, name, timeout_ms, deadline_s)
        if self._timer is None or deadline_s < self._rings_s:
            self._ring_at(deadline_s)

    def take(self, opaque: int) -> PendingAnswer | None:
        """Remove and return the request that waits for this response, or None."""
        return self._pending.pop(opaque, None)

    def take_all(self) -> list[PendingAnswer]:
        """Remove and return all requests."""
        pending, self._pending = self._pending, {}
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return list(pending.values())

    def _ring_at(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_s = max(deadline_s, self._loop.time())
        self._timer = self._loop.call_at(self._rings_s, self._ring)

    def _ring(self) -> None:
        """Remove the requests whose deadline has passed, and set the timer to the next deadline."""
        self._timer = None
        now_s = self._loop.time()
        if more_s := extension_s(now_s - self._rings_s):
            self._extend(now_s, now_s + more_s)
        late = [opaque for opaque, pending in self._pending.items() if pending.deadline_s <= self._rings_s]
        expired = [self._pending.pop(opaque) for opaque in late]
        if self._pending:
            self._ring_at(min(pending.deadline_s for pending in self._pending.values()))
        for pending in expired:
            self._expired(pending)

    def _extend(self, now_s: float, until_s: float) -> None:
        """Extend the deadlines that have passed, each once: a process that is always late must not wait forever."""
        for pending in self._pending.values():
            if pending.deadline_s <= now_s and not pending.is_extended:
                pending.deadline_s, pending.is_extended = until_s, True
