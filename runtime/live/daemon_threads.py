"""Threads for functions that may never end: the listeners of a program.

`concurrent.futures` joins its threads when the process ends, so a stuck listener would keep the process alive for ever.
The threads of this module are daemon threads: a process ends without waiting for them.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
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
        self._lock = threading.Lock()
        self._count = 0
        """How many threads will take further calls. The others end after their current function, or now."""
        self._unfinished = 0
        """How many functions wait for a thread or run."""
        self._threads: dict[threading.Thread, None] = {}
        self._busy: dict[threading.Thread, None] = {}
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether it is closed, and all its threads have ended."""
        return self._is_closed and not self._threads

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in a thread and return its result. If the caller is cancelled, the function continues.

        Raises: RuntimeError (closed, or the system doesn't let this process start any thread), and what it raises.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("these workers are closed and can't run anything any more")
            self._start_needed(self._unfinished + 1)
            self._unfinished += 1
            self._calls.put(_Call(future, loop, function, arguments))
        result: T = await future
        return result

    def resize(self, threads_max: int) -> None:
        """Change the limit. Threads above it end: idle ones now, others after their current function."""
        with self._lock:
            self._threads_max = threads_max
            if self._is_closed:
                return
            self._start_needed(self._unfinished)
            for _ in range(min(self._count - threads_max, self._count - self._unfinished)):
                self._count -= 1
                self._calls.put(None)

    def close(self) -> list[threading.Thread]:
        """Let each thread end after its last function; return the threads that end now, so the caller can join them.

        While a function waits for a thread, none is returned: any idle thread may take the function, and never end.
        """
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for _ in range(self._count):
                    self._calls.put(None)
            if self._unfinished > len(self._busy):
                return []
            return [thread for thread in self._threads if thread not in self._busy]

    def _start_needed(self, functions: int) -> None:
        """Start threads for this many functions, as far as the system allows. Raises: RuntimeError, if none runs."""
        while self._count < min(functions, self._threads_max):
            thread = threading.Thread(target=self._work, name=f"{NAME}_{self._count}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if self._count:
                    return
                raise
            self._count += 1
            self._threads[thread] = None

    def _work(self) -> None:
        own = threading.current_thread()
        is_kept = True
        while is_kept and (call := self._calls.get()) is not None:
            self._busy[own] = None
            result, error = None, None
            try:
                result = call.function(*call.arguments)
            except BaseException as raised:  # noqa: BLE001 (the caller must be notified of any error)
                error = raised
            with self._lock:
                del self._busy[own]
                self._unfinished -= 1
                if self._count > self._threads_max and not self._is_closed:
                    self._count -= 1
                    is_kept = False
            try:
                call.loop.call_soon_threadsafe(_settle, call.future, result, error)
            except RuntimeError:
                pass  # The event loop is closed: no caller waits for the outcome.
            del call, result, error
        with self._lock:
            del self._threads[own]


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # The caller was cancelled.
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the function raised StopIteration"))  # A future can't carry that.
    else:
        future.set_exception(error)
