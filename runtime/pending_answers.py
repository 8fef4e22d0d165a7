"""Requests of one connection that wait for their answers, each until its own deadline.

One timer for all of them: nearly every answer is here long before, and a timer for each is a fifth of what it costs to
ask.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from staticfire.protocol.command import Answer, Shape
from staticfire.protocol.errors import NetworkError, ProtocolError

Reply: TypeAlias = Answer | NetworkError | ProtocolError
"""What comes of a request: an answer, or why there is none."""


class PendingAnswer(msgspec.Struct, gc=False):
    """Who waits, for what, and how long."""

    told: Callable[[Reply], None]
    shape: Shape
    asked: str
    timeout_ms: int
    deadline_s: float


class PendingAnswers:
    """Those of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[PendingAnswer], None]) -> None:
        """`expired` is called with each whose time is over; it has been taken then."""
        self._loop = loop
        self._expired = expired
        self._pending: dict[int, PendingAnswer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0

    def add(self, opaque: int, told: Callable[[Reply], None], shape: Shape, asked: str, timeout_ms: int) -> None:
        """Have `told` called with what comes of a request."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        self._pending[opaque] = PendingAnswer(told, shape, asked, timeout_ms, deadline_s)
        if self._timer is None or deadline_s < self._rings_s:
            self._ring_at(deadline_s)

    def take(self, opaque: int) -> PendingAnswer | None:
        """Return who waits for that answer, and wait no longer."""
        return self._pending.pop(opaque, None)

    def take_all(self) -> list[PendingAnswer]:
        """Return all, and wait no longer."""
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
        """Take those whose time is over, and come again when it is the next one's."""
        self._timer = None
        late = [opaque for opaque, pending in self._pending.items() if pending.deadline_s <= self._rings_s]
        expired = [self._pending.pop(opaque) for opaque in late]
        if self._pending:
            self._ring_at(min(pending.deadline_s for pending in self._pending.values()))
        for pending in expired:
            self._expired(pending)
