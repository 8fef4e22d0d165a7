"""An event loop on virtual time: when nothing is ready, its clock jumps to the next timer.

One round of the loop:
1. If nothing is ready, the watchers check their conditions. If that wakes nothing, the clock jumps to the next timer.
2. The timers that are due are moved to the ready queue.
3. The callbacks that are ready now run. A callback of a killed or frozen process is given to its process instead.

So two hours take only as long as their callbacks, and the order is the same in each run: timers that are due at the
same time run in the order of their creation, and sets of tasks have a repeatable order (tasks.py). A run that can't
continue raises an error that lists the waiting tasks: nothing is scheduled (Deadlock), the rounds at one moment don't
end (Livelock), or virtual time exceeds the limit (TimeIsUp).

There is no real I/O and no thread: sockets, executors, signals and name look-ups raise. Code gets its network and
workers from a simulated machine.
"""

import asyncio
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from random import Random
from types import AsyncGeneratorType
from typing import Any, NoReturn, TypeVarTuple
from weakref import ref

from staticfire.simulation.world.process import PROCESS, Process, ProcessKilled
from staticfire.simulation.world.tasks import NumberedFuture, NumberedTask

Ts = TypeVarTuple("Ts")

# In virtual time. The 16 retries of a message take 5 hours, retention 48.
HOURS_MAX = 72
# How many rounds may run without the clock moving on.
ROUNDS_MAX = 1_000_000
_CANCELLED_TIMERS_MIN = 100
# A clean-up isn't worth it below these numbers.
_TASKS_MIN = 1_000


class SimulationStuck(Exception):
    """The simulated world can't continue."""


class Deadlock(SimulationStuck):
    """All tasks wait, and nothing is scheduled that could wake one of them."""


class Livelock(SimulationStuck):
    """Callbacks call each other without end, and the clock doesn't move on."""


class TimeIsUp(SimulationStuck):
    """More virtual time has passed than a run may take."""


class JumpingLoop(asyncio.BaseEventLoop):
    """The event loop of a simulated world. Time starts at 0 and is counted in whole nanoseconds."""

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _thread_id: int | None

    def __init__(self, hours_max: float = HOURS_MAX) -> None:
        super().__init__()
        # asyncio calls this for each new future and task, so it is a function of C that returns False.
        self.get_debug = bool  # type: ignore[method-assign]  # house: asyncio reads it
        self.uptime_ns = 0
        self.hours_max = hours_max
        self.stuck: SimulationStuck | None = None
        """Why the loop couldn't continue."""
        self._tasks: list[ref[NumberedTask]] = []
        self._tasks_max = _TASKS_MIN
        self._numbers = itertools.count(1)
        self.next_number = self._numbers.__next__
        """Returns a number that no task, future or timer of this loop has."""
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._rounds = 0
        self._watchers: list[tuple[Callable[[], object], asyncio.Future[None]]] = []
        self._jitter_ns = 0
        self._chance = Random(0).random

    # -- time ----------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.uptime_ns / 1e9

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        when_ns = round(when * 1e9)
        if self._jitter_ns and PROCESS.get() is not None:
            when_ns += int(self._chance() * self._jitter_ns)
        return self.call_at_ns(when_ns, callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        when_ns = self.uptime_ns + round(delay * 1e9)
        if self._jitter_ns and PROCESS.get() is not None:
            when_ns += int(self._chance() * self._jitter_ns)
        return self.call_at_ns(when_ns, callback, *args, context=context)

    def jitter_timers(self, ms: float, chance: Random) -> None:
        """Let the timers of processes fire late from now on, by a random time up to `ms`, as in an operating system."""
        self._jitter_ns = round(ms * 1e6)
        self._chance = chance.random

    def call_at_ns(
        self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call the callback at this time, after those that were scheduled for the same time earlier."""
        timer: Any = _new_handle(_Timer)
        timer._context = copy_context() if context is None else context
        timer._loop = self
        timer._callback = callback
        timer._args = args
        timer._cancelled = False
        timer._scheduled = True
        timer._when = when_ns / 1e9
        heapq.heappush(self._timers, (when_ns, next(self._numbers), timer))
        return timer  # type: ignore[no-any-return]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED_TIMERS_MIN and self._cancelled_timers * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def watch(self, condition: Callable[[], object], future: asyncio.Future[None]) -> None:
        """Finish the future when the condition is true. It is checked each time before the clock moves on."""
        self._watchers.append((condition, future))

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Like asyncio's, without checks for errors that can't occur here. Most of a run's time is spent in this."""
        handle: Any = _new_handle(_Soon)
        handle._context = copy_context() if context is None else context
        handle._loop = self
        handle._callback = callback
        handle._args = args
        handle._cancelled = False
        self._ready.append(handle)
        return handle  # type: ignore[no-any-return]

    # -- running -------------------------------------------------------------------------------------------------
    # BaseEventLoop lets subclasses replace one round of the loop, and the rest of it is unchanged. This method runs
    # many rounds, until the loop is stopped, because most of a run's time is spent in these lines.

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        while True:
            if not ready and not self._stopping and not (self._watchers and self._a_watcher_woke()):
                self._jump()
            now_ns = self.uptime_ns
            while timers and timers[0][0] <= now_ns:
                timer: Any = heapq.heappop(timers)[2]
                timer._scheduled = False
                ready.append(timer)
            self._rounds += 1
            if self._rounds > ROUNDS_MAX:
                self._no_end(ready)
            for _ in range(len(ready)):
                handle: Any = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                process = context.get(PROCESS)
                if process is not None and not process.is_running:
                    process.hold(handle)
                    continue
                try:
                    context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 (as asyncio's handles do)
                    self._blame(handle, error)
            if self._stopping:
                return

    def _blame(self, handle: asyncio.Handle, error: BaseException) -> None:
        words = f"Exception in callback {_words_for(handle)}"
        self.call_exception_handler({"message": words, "exception": error, "handle": handle})

    def _no_end(self, ready: deque[asyncio.Handle]) -> None:
        words = f"{ROUNDS_MAX} rounds at {self.uptime_ns / 1e9:.6f} s without progress of time"
        next_ones = [f"\n  the next callback is: {_words_for(handle)}" for handle in itertools.islice(ready, 10)]
        raise self._got_stuck(Livelock(words + "".join(next_ones)))

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise self._got_stuck(Deadlock(f"nothing is scheduled at {self.uptime_ns / 1e9:.6f} s, and all tasks wait"))
        when_ns = timers[0][0]
        if when_ns > self.hours_max * 3_600_000_000_000:
            raise self._got_stuck(TimeIsUp(f"the next timer is due at {when_ns / 3.6e12:.2f} h of {self.hours_max} h"))
        if when_ns > self.uptime_ns:
            self.uptime_ns = when_ns
            self._rounds = 0

    def _a_watcher_woke(self) -> bool:
        waiting = []
        for condition, future in self._watchers:
            if future.done():
                continue
            try:
                if condition():
                    future.set_result(None)
                    continue
            except Exception as error:  # noqa: BLE001 - the condition is the test's: it gets its own error back
                future.set_exception(error)
                continue
            waiting.append((condition, future))
        self._watchers = waiting
        return bool(self._ready)

    def _got_stuck(self, error: SimulationStuck) -> SimulationStuck:
        """Add the waiting tasks to the error, and reset the round count, so that the loop can be used to clean up."""
        waiting = sorted((task for task in self.tasks if not task.done()), key=lambda task: task.number)
        self.stuck = type(error)(f"{error}\n" + "\n".join(f"  waiting: {task!r}" for task in waiting))
        self._rounds = 0
        return self.stuck

    # -- processes -----------------------------------------------------------------------------------------------

    def take_away(self, process: Process) -> list[object]:
        """Remove a dead process's unfinished tasks and timers from the loop; return them."""
        own = [task for task in self.tasks if task.process is process]
        for task in own:
            if task.done() and not task.cancelled():
                # The waiting tasks never ran again, so it isn't an error that the exception wasn't retrieved.
                task.exception()
        mine = [task for task in own if not task.done()]
        for task in mine:
            asyncio._unregister_task(task)  # all_tasks() returns tasks that can be cancelled, and these can't
        gone = {id(task) for task in mine}
        self._tasks = [one for one in self._tasks if id(one()) not in gone]
        timers = [entry for entry in self._timers if _process_of(entry[2]) is process]
        self._timers[:] = [entry for entry in self._timers if _process_of(entry[2]) is not process]
        heapq.heapify(self._timers)
        return [*mine, *timers]

    def _asyncgen_finalizer_hook(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        """Like asyncio's, which closes the generator in a task. That fails if it was closed while it waited.

        The coroutines of killed processes are closed like that.
        """
        if not generator.ag_running:
            super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]

    def make_ready(self, handles: list[asyncio.Handle]) -> None:
        """Run these callbacks next: a frozen process continues."""
        self._ready.extend(handles)

    # -- BaseEventLoop's interface ---------------------------------------------------------------------------------

    def create_task(  # type: ignore[override]
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> NumberedTask:
        """Like asyncio's, which looks for a task factory first."""
        task = NumberedTask(next(self._numbers), coroutine, self, name=name, context=context)
        self.add_task(task)
        return task

    def create_future(self) -> NumberedFuture:
        return NumberedFuture(loop=self)

    def add_task(self, task: NumberedTask) -> None:
        """Add a task to those that are listed until they are collected."""
        self._tasks.append(ref(task))
        if len(self._tasks) > self._tasks_max:
            self._tasks = [one for one in self._tasks if one() is not None]
            self._tasks_max = max(2 * len(self._tasks), _TASKS_MIN)

    @property
    def tasks(self) -> list[NumberedTask]:
        """All tasks that weren't collected yet, including finished ones."""
        return [task for one in self._tasks if (task := one()) is not None]

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._thread_id not in (None, threading.get_ident()):
            raise RuntimeError(
                "a thread can't wake a simulated world, because its time doesn't wait: use machine.workers"
            )
        return self.call_soon(callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Like asyncio's, but it isn't an error that a killed process couldn't continue."""
        if not isinstance(context.get("exception"), ProcessKilled):
            super().call_exception_handler(context)

    def close(self) -> None:
        for task in self.tasks:
            # asyncio lists the tasks of all loops until they are collected, and searches that list when a loop ends.
            asyncio._unregister_task(task)
        self._timers.clear()
        self._watchers.clear()
        super().close()


class _Soon(asyncio.Handle):
    """asyncio's handle, created in a third of the time: the loop sets the attributes."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class _Timer(asyncio.TimerHandle):
    """The same for timers."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._scheduled:  # type: ignore[attr-defined]
                self._loop._timer_handle_cancelled(self)  # type: ignore[attr-defined]


_new_handle = object.__new__


def _process_of(handle: asyncio.Handle) -> Process | None:
    process: Process | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]
    return process


def _words_for(handle: asyncio.Handle) -> str:
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    return repr(task if isinstance(task, asyncio.Task) else handle)


def _not_simulated(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"JumpingLoop.{name}: not available in a simulated world, {instead}")

    return refuse


for _name in ("create_connection", "create_server", "create_datagram_endpoint", "getaddrinfo", "add_reader"):
    setattr(JumpingLoop, _name, _not_simulated(_name, "use machine.network"))
setattr(JumpingLoop, "run_in_executor", _not_simulated("run_in_executor", "use machine.workers"))  # noqa: B010
