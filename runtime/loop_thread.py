"""An event loop in a separate thread, which code without an event loop can call.

Every call ends: with the coroutine's result or error, or with ClientError if the thread has ended meanwhile. If a
caller stops waiting (Ctrl-C, a deadline), its coroutine is cancelled. `close` cancels the remaining coroutines and
waits until they have cleaned up. No coroutine is cancelled twice, so the shutdown of a service isn't interrupted.

A fork copies this object, but no thread. In the child process, every call is refused, and `close` does nothing.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from staticfire.protocol.errors import AnswerTimeout, ClientError

T = TypeVar("T")

# The owner is appended to the name, for stack dumps and debuggers.
THREAD_NAME = "staticfire-loop"


class LoopThread:
    """Runs coroutines for other threads, from its creation to `close`."""

    def __init__(self, owner: str) -> None:
        """`owner`: the name that errors use, like "producer orders"."""
        self.owner = owner
        self.error: BaseException | None = None
        """The error that ended the thread unexpectedly: a KeyboardInterrupt or SystemExit that a task raised."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._calls: dict[Future[Any], Coroutine[Any, Any, Any] | asyncio.Task[Any]] = {}
        """The calls that aren't done. A coroutine becomes a task as soon as the loop has started it."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name=f"{THREAD_NAME} {owner}", daemon=True)
        self._thread.start()
        self._loop, self._end = started.result()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    @property
    def is_copy(self) -> bool:
        """Whether this is the copy of a forked process. The thread exists only in the parent process."""
        return not self._is_closed and not self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        Raises: what the coroutine raises; AnswerTimeout; ClientError (closed, forked, or called from this thread).
        """
        if self.is_current:
            coroutine.close()
            raise ClientError(
                f"{self.owner}: a call from its own event loop would wait for itself; await the asyncio method there"
            )
        future = self.submit(coroutine)
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            return future.result(timeout_s)
        except BaseException as error:
            # A signal handler of the program may raise a TimeoutError of its own here, at any time.
            is_late = isinstance(error, TimeoutError) and until_s is not None and time.monotonic() >= until_s
            if future.done():
                if is_late:
                    return future.result()  # The coroutine ended between the timeout and here.
                raise
            self.cancel(future)
            if is_late:
                raise AnswerTimeout(f"{self.owner}: not done within {timeout_s:g} s") from None
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the loop; return the future of its result. Raises: ClientError (closed, forked)."""
        future: Future[T] = Future()
        try:
            self._check()
            with self._lock:
                if self._is_closed:
                    raise ClientError(self._why_closed())
                self._calls[future] = coroutine
                self._loop.call_soon_threadsafe(self._begin, coroutine, future)
        except ClientError:
            coroutine.close()
            raise
        future.add_done_callback(self._given_up)
        return future

    def cancel(self, future: "Future[Any]") -> None:
        """Cancel the coroutine of a future; no effect if it is done."""
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._cancel, future)

    def close(self) -> None:
        """Cancel the remaining coroutines, wait until they have cleaned up, and end the thread. May be called twice."""
        if self.is_copy:
            return
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._end.cancel)
        self._thread.join()

    def _check(self) -> None:
        # This is checked before the lock is taken: another thread of the parent may have held the lock during the fork.
        if self.is_copy:
            raise ClientError(f"{self.owner} belongs to the process that this one was forked from: create a new one")

    def _why_closed(self) -> str:
        if self.error is not None:
            return f"{self.owner} has ended: {self.error!r} was raised in its event loop"
        return f"{self.owner} is closed: use it inside its `with` block"

    # -- in the thread -------------------------------------------------------------------------------------------

    def _run(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]") -> None:
        with asyncio.Runner() as runner:
            try:
                runner.run(self._serve(started))
            except BaseException as error:  # noqa: BLE001 (the waiting callers must be notified of any error)
                if started.done():
                    self.error = error
                else:
                    started.set_exception(error)
            # This happens before the loop is closed, so that no call reaches a closed loop.
            with self._lock:
                self._is_closed = True
        for future, left in list(self._calls.items()):
            if not isinstance(left, asyncio.Task):
                left.close()
            _settle(future, ClientError(self._why_closed()))

    async def _serve(self, started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]") -> None:
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()
        started.set_result((loop, end))
        await asyncio.wait([end])
        tasks = [call for call in self._calls.values() if isinstance(call, asyncio.Task)]
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, coroutine: Coroutine[Any, Any, Any], future: "Future[Any]") -> None:
        self._calls[future] = task = self._loop.create_task(coroutine)
        task.add_done_callback(partial(self._done, future))
        if future.cancelled():
            task.cancel()

    def _cancel(self, future: "Future[Any]") -> None:
        call = self._calls.get(future)
        if isinstance(call, asyncio.Task) and not call.cancelling():
            call.cancel()

    def _done(self, future: "Future[Any]", task: "asyncio.Task[Any]") -> None:
        self._calls.pop(future, None)
        if task.cancelled():
            _settle(future, ClientError(f"{self.owner} was closed while this call waited"))
        elif (error := task.exception()) is not None:
            _settle(future, error)
        elif future.set_running_or_notify_cancel():
            future.set_result(task.result())

    def _given_up(self, future: "Future[Any]") -> None:
        """Cancel the coroutine if the caller has cancelled the future."""
        if future.cancelled():
            self.cancel(future)


def _settle(future: "Future[Any]", error: BaseException) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)


def refuse_in_event_loop(owner: str, own: LoopThread | None = None) -> None:
    """Raise ClientError if an event loop runs in this thread: a blocking call would stop it and all its tasks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if own is None or not own.is_current:
        raise ClientError(
            f"{owner}: this would block the running event loop; write `async with` and `await`, or call it in "
            "a thread: `await asyncio.to_thread(...)`"
        )
