"""What runs for a while and has to end in order: a service owns its tasks and waits for them.

async with broker:            # ready when entered
    await broker.wait()       # until stop() or until one of its loops crashed, which is raised
                              # every task gone when left
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self

from staticfire.protocol.errors import ClientError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""`Service.spawn`: runs a named loop of a service. What parts of a service are given to start theirs."""
Pause = Callable[[int], Coroutine[Any, Any, None]]
"""`Service.pause_for`: waits so many milliseconds inside of a loop."""


_NEVER = 1 << 62


class Alarm:
    """What wakes a loop of a service when something falls due, at the earliest of the times that it was told.

    A loop that looks every 250 ms whether something is due wakes an idle process four times a second for nothing. Times
    are rounded up to whole steps, so that many things that fall due close together are one waking.
    """

    def __init__(self, clock: Clock, step_ms: int) -> None:
        self._clock = clock
        self._step_ms = step_ms
        self._rings_ms = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._rang = asyncio.Event()

    def ring_by(self, due_ms: UptimeMs) -> None:
        """Ring within a step after that time, unless it rings earlier anyway. Hot: mostly it does."""
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
        """Return when it rings, at once when it has rung since the last call."""
        await self._rang.wait()
        self._rang.clear()


class Service:
    """Base of nameserver, broker and clients. Subclasses write `_start` and `_stop`, each in one readable order.

    It is entered once: what was left, or didn't start, is made anew.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[None] | None = None
        self._is_left = False

    @property
    def own_name(self) -> str:
        """What errors call it."""
        return type(self).__name__

    async def _start(self) -> None:
        """Bring everything up; return when ready."""

    async def _stop(self) -> None:
        """Take everything down, newest first. Runs also after a failed `_start`."""

    async def __aenter__(self) -> Self:
        """Raises: ClientError (it has been entered before; one that runs goes on), and what the start raises."""
        if self._is_left:
            raise ClientError(f"{self.own_name} was left, or didn't start: it is used once, make another one")
        if self._end is not None:
            raise ClientError(f"{self.own_name} runs already: use the one that was entered, or make another one")
        self._end = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except GeneratorExit:
            raise  # The coroutine is being closed and can't wait for anything any more.
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is not GeneratorExit:  # Then the coroutine is being closed and can't wait for anything any more.
            await self._leave()

    async def _leave(self) -> None:
        self._is_left = True
        try:
            await self._stop()
        finally:
            await self._cancel_tasks()

    def stop(self) -> None:
        """Let `wait` return. Any thread may call it."""
        self.in_loop(self._stop_waiting)

    def _stop_waiting(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(None)

    def in_loop(self, act: Callable[[], None]) -> None:
        """Do something in the event loop of this service: at once there, or before it has one; soon for a thread."""
        loop = None if self._end is None else self._end.get_loop()
        if loop is None or loop is _running_loop():
            act()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(act)

    async def wait(self) -> None:
        """Return after `stop`; raise what a loop of this service crashed with."""
        assert self._end is not None, "wait() belongs inside `async with service`"
        await asyncio.shield(self._end)

    @property
    def crash(self) -> BaseException | None:
        """What a loop of this service crashed with."""
        end = self._end
        return end.exception() if end is not None and end.done() and not end.cancelled() else None

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a loop of this service. When it crashes, the service has crashed."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    async def pause_for(self, pause_ms: int) -> None:
        """Wait, inside a loop of this service, until its next turn."""
        await asyncio.sleep(pause_ms / 1000)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        if self._end is not None and not self._end.done():
            self._end.set_exception(task.exception() or RuntimeError(task.get_name()))
            self._end.exception()  # Retrieved here, so that an embedder that never waits gets no warning.

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
