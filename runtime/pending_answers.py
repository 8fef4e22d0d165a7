"""The requests of one connection that wait for a response, each until its own deadline.

All of them share one timer. Nearly every response arrives long before its deadline, and a separate timer would be a
fifth of a request's cost.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from staticfire.protocol.command import Answer, Shape
from staticfire.protocol.errors import NetworkError, ProtocolError

Reply: TypeAlias = Answer | NetworkError | ProtocolError
"""The outcome of a request: a response, or the error that prevented one."""


class PendingAnswer(msgspec.Struct, gc=False):
    """A request that waits: its callback, the expected response, and the deadline."""

    on_outcome: Callable[[Reply], None]
    shape: Shape
    name: str
    timeout_ms: int
    deadline_s: float


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
        self._rings_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._ring)

    def _ring(self) -> None:
        """Remove the requests whose deadline has passed, and set the timer to the next deadline."""
        self._timer = None
        late = [opaque for opaque, pending in self._pending.items() if pending.deadline_s <= self._rings_s]
        expired = [self._pending.pop(opaque) for opaque in late]
        if self._pending:
            self._ring_at(min(pending.deadline_s for pending in self._pending.values()))
        for pending in expired:
            self._expired(pending)
