"""Threads for what blocks: syncs, replacing files, plain functions as listeners."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
THREADS_MAX = 32
# A broker needs a few. A consumer's plain listeners run here too: RocketMQ's consumeThreadMax is 20.


class LiveWorkers:
    """One pool of threads, started by need."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="staticfire")
        self._were_needed = False

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` in a thread. A cancelled caller leaves; the function runs to its end."""
        self._were_needed = True
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def close(self) -> None:
        """Wait for what runs, without holding up the loop, and end the threads; fine when done twice."""
        if not self._were_needed:  # Most short-lived clients: a thread that ends no threads is half of their end.
            self._pool.shutdown()
            return
        loop = asyncio.get_running_loop()
        closed = loop.create_future()

        def shut_down() -> None:
            self._pool.shutdown(wait=True)
            loop.call_soon_threadsafe(closed.set_result, None)

        closer = threading.Thread(target=shut_down, name="staticfire-close")
        closer.start()
        try:
            await asyncio.shield(closed)
        finally:
            closer.join()
