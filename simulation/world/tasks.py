"""Tasks and futures whose hash is their number instead of their memory address.

asyncio keeps them in sets and iterates over those (`TaskGroup` when it cancels, `asyncio.wait`). In the order of
addresses, a run wouldn't be repeatable.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

from staticfire.simulation.world.process import PROCESS, Process


class NumberedFuture(asyncio.Future[Any]):
    """A future of a JumpingLoop. It gets its number when it is first hashed, because few futures are put into a set."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = self._loop.next_number()  # type: ignore[attr-defined]
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task of a JumpingLoop, with the simulated process that it belongs to."""

    def __init__(
        self,
        number: int,
        coroutine: Coroutine[Any, Any, Any],
        loop: asyncio.AbstractEventLoop,
        name: str | None = None,
        context: Context | None = None,
    ) -> None:
        self.number = number
        self.process: Process | None = PROCESS.get() if context is None else context.get(PROCESS)
        super().__init__(coroutine, loop=loop, name=name or f"Task-{number}", context=context)

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        where = f" of {self.process.name}" if self.process is not None else ""
        return f"{self.get_name()}{where} ({self._place()})"

    def _place(self) -> str:
        if self.done():
            return "done"
        innermost: Any = self.get_coro()
        frame = None
        while innermost is not None:
            # Follow the chain of awaits to the innermost frame, where the task really waits.
            frame = getattr(innermost, "cr_frame", None) or getattr(innermost, "gi_frame", None) or frame
            innermost = getattr(innermost, "cr_await", None) or getattr(innermost, "gi_yieldfrom", None)
        if frame is None:
            return "not started"
        return f"in {frame.f_code.co_qualname}, {frame.f_code.co_filename}:{frame.f_lineno}"
