"""Threads for functions that may never end: the listeners of a program.

`concurrent.futures` joins its threads when the process ends, so a stuck listener would keep the process alive for ever.
The threads of this module are daemon threads: a process ends without waiting for them.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

NAME = "staticfire-listener"


class _Call(NamedTuple):
    """A function to call, and the future of its result."""

    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    function: Callable[..., Any]
    arguments: tuple[object, ...]


class DaemonThreads:
    """A pool that starts as many threads as are needed at the same time, up to a limit."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._busy: dict[threading.Thread, None] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function in a thread and return its result. If the caller is cancelled, the function continues."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("these workers are closed and can't run anything any more")
            self._calls.put(_Call(future, loop, function, arguments))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._threads_max:
                thread = threading.Thread(target=self._work, name=f"{NAME}_{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return await future

    def close(self) -> list[threading.Thread]:
        """Let each thread end after its current function; return the idle threads, which end now."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)
        return [thread for thread in threads if thread not in self._busy]

    def _work(self) -> None:
        own = threading.current_thread()
        while (call := self._calls.get()) is not None:
            self._busy[own] = None
            result, error = None, None
            try:
                result = call.function(*call.arguments)
            except BaseException as raised:  # noqa: BLE001 (the caller must be notified of any error)
                error = raised
            del self._busy[own]
            self._idle.release()
            try:
                call.loop.call_soon_threadsafe(_settle, call.future, result, error)
            except RuntimeError:
                pass  # The event loop is closed: no caller waits for the outcome.
            del call, result, error


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # The caller was cancelled.
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the function raised StopIteration"))  # A future can't carry that.
    else:
        future.set_exception(error)
