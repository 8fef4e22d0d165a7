"""Read and move message time. This is staticfire's own; RocketMQ has nothing like it.

Behaviour
- ADVANCE is answered when the cluster is at rest at the target time. NOT_AT_REST names the group, queue and client that
  prevent this, and time stops at the last completed step.
- An advance whose caller has left (Ctrl-C, a timeout) ends: time stops where it is, and has its earlier mode again.
- Only one caller at a time moves the clock. A target in the past is refused, with both times in the error.
- Brokers follow only the first nameserver of their list. Any other nameserver refuses, instead of moving its time
  alone.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from staticfire.nameserver.clock_owner import SETTLE_MS_MAX, Advanced
from staticfire.nameserver.state import NameserverState
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.clock import (
    ACTIONS,
    ADVANCE,
    FREEZE,
    FROZEN,
    NOW,
    RATE_MAX,
    READ,
    REAL,
    RUN,
    SCALE,
    SCALED,
    SKIP,
    SKIPPING,
    WATCH,
    Clock,
    ClockAnswer,
)
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import AsyncHandler, Call

# Ten years. A longer advance most likely has the wrong unit.
ADVANCE_MS_MAX = 3_650 * 86_400_000


_MODES = {FREEZE: (FROZEN, 0.0), RUN: (REAL, 1.0), SKIP: (SKIPPING, 1.0)}


class ClockHandlers:
    """The handlers of clock requests from users."""

    def __init__(self, state: NameserverState) -> None:
        self._state = state
        self._owner = state.clock

    def by_code(self) -> dict[RequestCode, AsyncHandler]:
        return {RequestCode.CLOCK: self.clock}

    async def clock(self, call: Call) -> Answer:
        """Perform one action and return the clock's state after it."""
        request: Clock = call.request
        owner, action = self._owner, request.action
        done = Advanced()
        if action not in ACTIONS:
            raise _illegal(f"{action!r} is not an action of the clock; the actions are {', '.join(ACTIONS)}")
        if action not in (READ, WATCH, NOW) and not owner.brokers and self._state.routes.live:
            words = (
                "no broker here follows this nameserver's clock: use the first nameserver of the brokers' list "
                "(namesrvAddr)"
            )
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if action == WATCH:
            owner.watched_by(call.connection)
        elif action == ADVANCE:
            with _ended_with(call.connection):
                done = await self._advance(request)
        elif action == SCALE:
            await owner.run_at(SCALED, self._rate(request))
        elif action in _MODES:
            await owner.run_at(*_MODES[action])
        reading = owner.shown()
        due_ms = None if action in (READ, WATCH) else await owner.next_due_ms()
        wall_ms = self._state.machine.clock.wall_ms()
        return ClockAnswer(
            reading.epoch, reading.mode, reading.rate, reading.message_ms, wall_ms, done.delivered, done.steps,
            -1 if due_ms is None else due_ms, done.checked, done.expired,
        )  # fmt: skip

    async def _advance(self, request: Clock) -> Advanced:
        """Advance the clock; return what was due on the way."""
        if (request.by_ms is None) == (request.to_ms is None):
            raise _illegal("an advance needs either a duration or a time")
        by_ms = request.by_ms if request.to_ms is None else request.to_ms - self._owner.message_ms()
        if request.by_ms is not None and request.by_ms < 0:
            raise _illegal(f"message time can't go back: {request.by_ms} ms")
        if by_ms is not None and by_ms > ADVANCE_MS_MAX:
            raise _illegal(f"an advance of {by_ms} ms is over the limit of ten years")
        settle_ms_max = SETTLE_MS_MAX if request.settle_ms_max is None else request.settle_ms_max
        if settle_ms_max < 0:
            raise _illegal(f"settle_ms_max={settle_ms_max}: it must not be negative")
        if request.to_ms is not None:
            return await self._owner.advance_to(request.to_ms, settle_ms_max)
        return await self._owner.advance_by(request.by_ms or 0, settle_ms_max)

    def _rate(self, request: Clock) -> float:
        if request.rate is None or not 0 < request.rate <= RATE_MAX:
            raise _illegal(f"the rate {request.rate} must be above 0 and at most {RATE_MAX:g}")
        return request.rate


@contextmanager
def _ended_with(connection: Connection) -> Iterator[None]:
    """Cancel the current task when a connection is lost."""
    task, lost = asyncio.current_task(), connection.closed
    assert task is not None
    assert lost is not None

    def cancel(_: object) -> None:
        task.cancel()

    lost.add_done_callback(cancel)
    try:
        yield
    finally:
        lost.remove_done_callback(cancel)


def _illegal(words: str) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
