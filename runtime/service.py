"""A service: something that runs for a while and must end in order. It owns its tasks and waits for them.

async with broker:            # the broker is ready
    await broker.wait()       # until stop(), or until a loop of the broker crashes, which is raised
                              # on exit, every task has ended
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self

from staticfire.protocol.errors import ClientError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""The type of `Service.spawn`, which runs a named loop of a service. Parts of a service start their loops with it."""
Pause = Callable[[int], Coroutine[Any, Any, None]]
"""The type of `Service.pause_for`, which waits a number of milliseconds inside of a loop."""


_NEVER = 1 << 62


class Alarm:
    """Wakes a loop of a service when something is due: at the earliest of the times given to `ring_by`.

    A loop that checks every 250 ms whether something is due would wake an idle process four times a second for nothing.
    Times are rounded up to whole steps, so that several things that are due close together need one wake-up.
    """

    def __init__(self, clock: Clock, step_ms: int) -> None:
        self._clock = clock
        self._step_ms = step_ms
        self._rings_ms = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._rang = asyncio.Event()

    def ring_by(self, due_ms: UptimeMs) -> None:
        """Ring within one step after that time, unless it rings earlier. Hot path: mostly it rings earlier anyway."""
        if due_ms < self._rings_ms:
            self._rings_ms = rings_ms = due_ms + -due_ms % self._step_ms
            if self._timer is not None:
                self._timer.cancel()
            pause_ms = max(rings_ms - self._clock.uptime_ms(), 0)
            self._timer = asyncio.get_running_loop().call_later(pause_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._rings_ms = _NEVER
        self._rang.set()

    async def wait(self) -> None:
        """Wait until it rings; return at once if it has rung since the last call."""
        await self._rang.wait()
        self._rang.clear()


class Service:
    """Base class of the nameserver, the broker and the clients. Subclasses implement `_start` and `_stop`.

    A service can be entered only once. After it has ended or failed to start, create a new one.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[None] | None = None
        self._is_left = False
        # The task that is in `_start`.
        self._starter: asyncio.Task[Any] | None = None

    @property
    def own_name(self) -> str:
        """The name of this service in errors."""
        return type(self).__name__

    async def _start(self) -> None:
        """Start all parts; return when ready."""

    async def _stop(self) -> None:
        """Stop all parts, newest first. It runs also after a failed `_start`."""

    async def __aenter__(self) -> Self:
        """Start the service.

        Raises: ClientError (it was entered before; a running service isn't affected), what `_start` raises, and what a
        loop of the service crashes with meanwhile.
        """
        if self._is_left:
            raise ClientError(
                f"{self.own_name} was closed, or failed to start: it can be used only once, create a new one"
            )
        if self._end is not None:
            raise ClientError(f"{self.own_name} is already running: use the running one, or create a new one")
        self._end = asyncio.get_running_loop().create_future()
        try:
            await self._start_or_crash()
        except GeneratorExit:
            # The coroutine is being closed and can't wait for anything.
            raise
        except BaseException:
            await self._leave()
            raise
        return self

    async def _start_or_crash(self) -> None:
        """Start, but no longer than all loops run: the start may wait for what a crashed one would have done."""
        starter = self._starter = asyncio.current_task()
        cancels = 0 if starter is None else starter.cancelling()
        try:
            await self._start()
        except asyncio.CancelledError:
            # Otherwise the caller has cancelled the start, too.
            if not self._is_cancelled_only_by_crash(starter, cancels):
                raise
        except BaseException:
            self._is_cancelled_only_by_crash(starter, cancels)
            raise
        else:  # Something in it may have ignored the cancellation.
            self._is_cancelled_only_by_crash(starter, cancels)
        finally:
            self._starter = None
        crash = self.crash
        if crash is not None:
            raise crash  # Outside of the `except`, which would replace its context.

    def _is_cancelled_only_by_crash(self, starter: asyncio.Task[Any] | None, cancels: int) -> bool:
        """Take back the cancellation by a crash, if there was one. Return whether no other one is left.

        `cancels`: how many there were before the start.
        """
        return self.crash is not None and starter is not None and starter.uncancel() <= cancels

    async def __aexit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        # Otherwise the coroutine is being closed and can't wait for anything.
        if kind is not GeneratorExit:
            await self._leave()

    async def _leave(self) -> None:
        self._is_left = True
        try:
            await self._stop()
        finally:
            await self._cancel_tasks()

    def stop(self) -> None:
        """Let `wait` return. May be called from any thread."""
        self.in_loop(self._stop_waiting)

    def _stop_waiting(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(None)

    def in_loop(self, act: Callable[[], None]) -> None:
        """Call a function in the event loop of this service.

        It is called at once if the caller is in that loop or the service has no loop yet; from another thread, it is
        scheduled.
        """
        loop = None if self._end is None else self._end.get_loop()
        if loop is None or loop is _running_loop():
            act()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(act)

    async def wait(self) -> None:
        """Wait until `stop`; raise the error that a loop of this service crashed with."""
        assert self._end is not None, "call wait() inside `async with service`"
        await asyncio.shield(self._end)

    @property
    def crash(self) -> BaseException | None:
        """The error that a loop of this service crashed with, or None."""
        end = self._end
        return end.exception() if end is not None and end.done() and not end.cancelled() else None

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a loop of this service. If the loop crashes, the service has crashed."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    async def pause_for(self, pause_ms: int) -> None:
        """Wait inside a loop of this service until its next turn."""
        await asyncio.sleep(pause_ms / 1000)

    def _crashed(self, loop_name: str, error: BaseException) -> None:
        """Called when the first loop has crashed before `stop`. For services whose programs may not call `wait`."""

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._end is not None and not self._end.done():
            self._crashed(task.get_name(), error)
            self._end.set_exception(error)
            # The exception is retrieved here, so that a program that never calls `wait` gets no warning.
            self._end.exception()
            if self._starter is not None:
                self._starter.cancel()  # `_start_or_crash` raises the error instead.

    async def _cancel_tasks(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def pause_between_looks(pause_ms: int) -> None:
    """Wait, outside of a service, between two looks at something that doesn't report its changes."""
    await asyncio.sleep(pause_ms / 1000)
