"""Threads for blocking functions, such as syncs and file replacement; other threads for synchronous listeners."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from staticfire.runtime.live.daemon_threads import DaemonThreads

T = TypeVar("T")
# The limit of the pools of `run` and `run_foreign`. A broker needs a few threads. Consumers have their own ones.
THREADS_MAX = 32


class LiveWorkers:
    """Thread pools, started when needed: one for functions that end, others for functions of the user's program."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="staticfire")
        self._threads_max = threads_max
        self._foreign: DaemonThreads | None = None
        self._all_foreign: list[DaemonThreads] = []
        self._is_closed = False
        self._were_needed = False

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` in a thread. If the caller is cancelled, the function runs to its end."""
        self._were_needed = True
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def run_foreign(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function of the user's program, which may never end.

        Neither `close` nor the end of the process waits for it.
        """
        if self._foreign is None:
            self._foreign = self.foreign_threads(self._threads_max)
        return await self._foreign.run(function, *arguments)

    def foreign_threads(self, threads_max: int) -> "DaemonThreads":
        """Return threads for one part of the user's program, so that its stuck functions don't delay other parts."""
        # Imported here because servers run no such functions.
        from staticfire.runtime.live.daemon_threads import DaemonThreads

        threads = DaemonThreads(threads_max)
        self._all_foreign = [*(one for one in self._all_foreign if not one.is_over), threads]
        if self._is_closed:
            threads.close()
        return threads

    async def close(self) -> None:
        """Wait for the running functions without blocking the event loop, and end the threads. May be called twice.

        It doesn't wait for functions of the user's program.
        """
        self._is_closed = True
        idle = [thread for threads in self._all_foreign for thread in threads.close()]
        # This is the case for most short-lived clients. The closing thread would take half of their shutdown time.
        if not self._were_needed and not idle:
            self._pool.shutdown()
            return
        loop = asyncio.get_running_loop()
        closed = loop.create_future()

        def shut_down() -> None:
            self._pool.shutdown(wait=True)
            for thread in idle:
                thread.join()
            loop.call_soon_threadsafe(closed.set_result, None)

        closer = threading.Thread(target=shut_down, name="staticfire-close")
        closer.start()
        try:
            await asyncio.shield(closed)
        finally:
            closer.join()
