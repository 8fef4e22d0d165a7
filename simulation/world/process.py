"""A simulated process: what runs in it, and the power to stop that for good or for a while.

Everything of a process runs in copies of its context: its protocols' callbacks, and each task or callback that those or
its own tasks start (contexts are inherited). The loop looks at the context of each callback before it runs it. So a
killed process never runs another line, not even a `finally`, and a frozen one goes on where it stopped, as with SIGKILL
and SIGSTOP; no code has to cooperate.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from contextvars import Context, ContextVar
from typing import Any

CLOSE_TRIES_MAX = 100
# A coroutine that awaits in a `finally` has to be closed once more for each such await.


class ProcessKilled(BaseException):
    """A machine was asked for something after its process was killed.

    Not an Exception: the code of a killed process isn't to handle it.
    """


class Process:
    """One life of a simulated process, from its start until it is killed."""

    def __init__(self, name: str, host: str, pid: int) -> None:
        self.name = name
        self.host = host
        self.pid = pid
        self.is_running = True
        self.is_dead = False
        self.context = Context()
        self.context.run(PROCESS.set, self)
        self._held: deque[asyncio.Handle] = deque()
        self._graveyard: list[Any] = []

    def require_alive(self) -> None:
        """Raises: ProcessKilled."""
        if self.is_dead:
            raise ProcessKilled(
                f"{self.name} (pid {self.pid}) was killed; world.machine({self.name!r}) has its next life"
            )

    def hold(self, handle: asyncio.Handle) -> None:
        """Take a callback whose turn it is while this process doesn't run."""
        # A dead process keeps it as well: dropping the last reference to a coroutine would run its `finally` blocks.
        (self._graveyard if self.is_dead else self._held).append(handle)

    def freeze(self) -> None:
        self.is_running = False

    def thaw(self) -> list[asyncio.Handle]:
        """Go on; return the callbacks that waited, in their order."""
        self.is_running = not self.is_dead
        handles = list(self._held)
        self._held.clear()
        return handles

    def die(self, remains: Iterable[object]) -> None:
        """Never run again. `remains`: its tasks and timers."""
        self.is_running = False
        self.is_dead = True
        self._graveyard.extend(remains)
        self._graveyard.extend(self._held)
        self._held.clear()

    def bury(self) -> None:
        """Close the coroutines of a dead process, when nothing can see it any more.

        Their `finally` blocks do run now, on a machine that answers everything with ProcessKilled.
        """
        for remain in self._graveyard:
            if isinstance(remain, asyncio.Task):
                remain._log_destroy_pending = False  # type: ignore[attr-defined]
                if remain.done() and not remain.cancelled():
                    remain.exception()  # It was killed in the middle of a step, so nobody else can have looked.
                _close(remain.get_coro())
        self._graveyard.clear()


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


def _close(coroutine: Any) -> None:
    for _ in range(CLOSE_TRIES_MAX):
        with contextlib.suppress(BaseException):
            coroutine.close()
            return
