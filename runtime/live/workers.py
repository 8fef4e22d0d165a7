"""Threads for what blocks: syncs, replacing files; and others for plain functions as listeners."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from staticfire.runtime.live.daemon_threads import DaemonThreads

T = TypeVar("T")
THREADS_MAX = 32
# Of each pool. A broker needs a few; for a consumer's plain listeners, RocketMQ's consumeThreadMax is 20.


class LiveWorkers:
    """Two pools of threads, started by need: one for functions that end, one for those of programs."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="staticfire")
        self._threads_max = threads_max
        self._foreign: DaemonThreads | None = None
        self._is_closed = False
        self._were_needed = False

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` in a thread. A cancelled caller leaves; the function runs to its end."""
        self._were_needed = True
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def run_foreign(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function of the program, which may never end: `close` and the end of the process don't wait for it."""
        if self._foreign is None:
            from staticfire.runtime.live.daemon_threads import DaemonThreads  # here: servers have no such functions

            self._foreign = DaemonThreads(self._threads_max)
            if self._is_closed:
                self._foreign.close()
        self._were_needed = True
        result: T = await self._foreign.run(function, *arguments)
        return result

    async def close(self) -> None:
        """Wait for what runs, without holding up the loop, and end the threads; fine when done twice.

        A function of the program that still runs isn't waited for.
        """
        self._is_closed = True
        idle = [] if self._foreign is None else self._foreign.close()
        if not self._were_needed:  # Most short-lived clients: a thread that ends no threads is half of their end.
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
