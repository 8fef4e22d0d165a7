"""Tasks that continue after a call has ended or was cancelled by its client."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.log import logger

log = logger("proxy")

T = TypeVar("T")


class Background:
    """Tasks that no call has to wait for; failures are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], what: str) -> "asyncio.Task[T]":
        """Start a task; `what` is its name in the log."""
        task = asyncio.get_running_loop().create_task(work, name=what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, wait_ms_max: int) -> None:
        """Wait until no task is running, those included that they start meanwhile, but at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms_max / 1000):
                while self._tasks:
                    await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel the running tasks, and those that they start meanwhile, and wait for their end."""
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StaticfireError):
            log.info("background_work_failed", what=task.get_name(), reason=str(error))
        elif error is not None:
            log.error("background_work_failed", what=task.get_name(), error=repr(error))


def retrieved(task: "asyncio.Task[Any]") -> None:
    """Take the outcome of a task for which no call may wait any more: asyncio reports errors that aren't taken."""
    if not task.cancelled():
        task.exception()
