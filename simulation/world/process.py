"""A simulated process: its code can be stopped for good or for a while.

All code of a process runs in copies of its context: the callbacks of its protocols, and each task or callback that
these start (contexts are inherited). The loop looks at the context of each callback before it runs the callback. So a
killed process never runs another line, not even a `finally`, and a frozen one continues where it was stopped, as with
SIGKILL and SIGSTOP. No code has to cooperate.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from contextvars import Context, ContextVar
from types import CoroutineType
from typing import Any

# A coroutine that awaits in a `finally` must be closed once more for each such await.
CLOSE_TRIES_MAX = 100


class ProcessKilled(BaseException):
    """A machine was used after its process had been killed.

    It isn't an Exception, so that the code of a killed process doesn't handle it.
    """


class Process:
    """One simulated process, from its start until it is killed."""

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
                f"{self.name} (pid {self.pid}) was killed; world.machine({self.name!r}) returns its next process"
            )

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep a callback that is due while this process doesn't run."""
        # A dead process keeps it, too: dropping the last reference to a coroutine would run its `finally` blocks.
        (self._graveyard if self.is_dead else self._held).append(handle)

    def freeze(self) -> None:
        self.is_running = False

    def thaw(self) -> list[asyncio.Handle]:
        """Continue; return the callbacks that were held back, in order."""
        self.is_running = not self.is_dead
        handles = list(self._held)
        self._held.clear()
        return handles

    def die(self, remains: Iterable[object]) -> None:
        """Stop for good. `remains`: the tasks and timers of the process."""
        self.is_running = False
        self.is_dead = True
        self._graveyard.extend(remains)
        self._graveyard.extend(self._held)
        self._held.clear()

    def bury(self) -> None:
        """Close the coroutines of a dead process, after everything else has ended.

        Their `finally` blocks do run now, on a machine that raises ProcessKilled for every call.
        """
        for remain in self._graveyard:
            if isinstance(remain, asyncio.Task):
                remain._log_destroy_pending = False  # type: ignore[attr-defined]
                if remain.done() and not remain.cancelled():
                    # It was killed in the middle of a step, so no other task can have retrieved the exception.
                    remain.exception()
                _close(remain.get_coro())
        self._graveyard.clear()


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


def _close(coroutine: Any) -> None:
    for _ in range(CLOSE_TRIES_MAX):
        # From the inside: the one outside would drop one that waits in a `finally`, and Python would warn of it.
        awaited = coroutine.cr_await
        if isinstance(awaited, CoroutineType):
            _close(awaited)
        with contextlib.suppress(BaseException):
            coroutine.close()
            return
