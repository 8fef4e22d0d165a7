"""Calls a listener that is a plain function, in threads.

A visit to a thread costs more than most calls, so one visit makes as many calls as fit into a few milliseconds. The
threads share the deque of waiting calls. The event loop only appends to it, and processes the results: after the visit,
or before that if a call takes long, because the finished calls mustn't wait for it.
"""

from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import ConsumeContext, Messages
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock, ForeignThreads

if TYPE_CHECKING:
    from staticfire.client.consume.popping.pop_queue import PopQueue

Queue: TypeAlias = "AssignedQueue[ConcurrentPolicy] | PopQueue"
Waiting: TypeAlias = "tuple[Queue, Messages]"
"""A call that has not begun."""

CALLS_PER_VISIT_MAX = 32
# After this time the visit ends with its current call, so that finished calls don't wait long for the others.
VISIT_MS = 5

Key = TypeVar("Key", bound=Hashable)
Call = TypeVar("Call")


class ListenerCall:
    """One finished call. A listener may return anything."""

    __slots__ = ("context", "error", "messages", "queue", "status", "took_ms")

    def __init__(
        self,
        queue: Queue,
        messages: Messages,
        context: ConsumeContext,
        status: Any,
        error: BaseException | None = None,
    ) -> None:
        self.queue = queue
        self.messages = messages
        self.context = context
        self.status = status
        self.error = error
        self.took_ms = 0


class ThreadVisit(Generic[Call]):
    """One visit to a thread. The thread appends its finished calls; the event loop takes them, also before the end."""

    __slots__ = ("began_ms", "is_ending", "is_over", "made", "taken")

    def __init__(self, is_ending: bool = False) -> None:
        self.is_ending = is_ending
        """Whether it makes no call after the current one."""
        self.began_ms: UptimeMs | None = None
        """None until a thread has begun it."""
        self.is_over = False
        self.made: list[Call] = []
        self.taken = 0
        """How many calls the event loop has taken."""

    @property
    def is_in_thread(self) -> bool:
        """Whether a thread is in it now."""
        return self.began_ms is not None and not self.is_over

    def take(self, count_max: int | None = None) -> list[Call]:
        """Remove and return the first finished calls. The thread may append others meanwhile: they remain."""
        calls = self.made[:count_max]
        del self.made[: len(calls)]
        self.taken += len(calls)
        return calls


class ThreadVisits(Generic[Key, Call]):
    """One consumer's threads, and its visits to them, each with a key."""

    def __init__(self, clock: Clock, threads: ForeignThreads) -> None:
        self.threads = threads
        self._clock = clock
        self._visits: dict[Key, ThreadVisit[Call]] = {}
        """Those whose end hasn't been processed, including those that are no longer waited for."""
        self._is_leaving = False

    async def run(self, key: Key, make: Callable[[ThreadVisit[Call], UptimeMs], None]) -> ThreadVisit[Call]:
        """Let `make` make calls in a thread; it gets the visit and the time. Return the visit when it is over.

        If this is cancelled, the visit continues, and its finished calls can still be taken.
        """
        visit: ThreadVisit[Call] = ThreadVisit(self._is_leaving)
        self._visits[key] = visit
        await self.threads.run(self._in_thread, visit, make)
        del self._visits[key]
        return visit

    def _in_thread(self, visit: ThreadVisit[Call], make: Callable[[ThreadVisit[Call], UptimeMs], None]) -> None:
        visit.began_ms = began_ms = self._clock.uptime_ms()
        try:
            make(visit, began_ms)
        finally:
            visit.is_over = True

    def leave(self) -> None:
        """Let all visits end with their current call."""
        self._is_leaving = True
        for visit in self._visits.values():
            visit.is_ending = True

    def close(self) -> int:
        """Let the threads end. Return how many are still in the listener, which are no longer waited for."""
        self.threads.close()
        return sum(visit.is_in_thread for visit in self._visits.values())


class ThreadedCalls(ThreadVisits[int, ListenerCall]):
    """The listener, and the calls that wait for it. The key of a visit is its number."""

    def __init__(self, listener: Any, waiting: deque[Waiting], clock: Clock, threads: ForeignThreads) -> None:
        super().__init__(clock, threads)
        self._listener = listener
        self._waiting = waiting
        self._numbers = count()

    # -- in the event loop ---------------------------------------------------------------------------------------

    @property
    def is_visiting(self) -> bool:
        """Whether there are visits whose end hasn't been processed."""
        return bool(self._visits)

    async def visit(self) -> list[ListenerCall]:
        """Make calls in a thread until none waits, or the time of a visit is over. Return those that aren't taken."""
        return (await self.run(next(self._numbers), self._make)).take()

    def take_finished(self) -> list[ListenerCall]:
        """Remove and return the finished calls of all visits."""
        return [call for visit in self._visits.values() for call in visit.take()]

    def end_long_visits(self, uptime_ms: UptimeMs) -> bool:
        """Let visits whose time is over end with their current call. Return whether there are visits with time left.

        The thread notices the end of its time only when a call ends. After this, all calls but the current one of such
        a visit have been taken, or will be when it ends: the thread appends a call before it looks at `is_ending`.
        """
        is_any_left = False
        for visit in self._visits.values():
            if visit.began_ms is None or uptime_ms - visit.began_ms < VISIT_MS:
                is_any_left = True
            else:
                visit.is_ending = True
        return is_any_left

    # -- in a thread ---------------------------------------------------------------------------------------------

    def _make(self, visit: ThreadVisit[ListenerCall], began_ms: UptimeMs) -> None:
        made = visit.made
        end_ms = began_ms + VISIT_MS
        while len(made) < CALLS_PER_VISIT_MAX and not visit.is_ending:
            try:
                queue, messages = self._waiting.popleft()
            except IndexError:
                break
            if queue.is_dropped:
                continue
            call = self._call(queue, messages, began_ms)
            ended_ms = self._clock.uptime_ms()
            call.took_ms = ended_ms - began_ms
            made.append(call)
            began_ms = ended_ms  # The next call begins now.
            if ended_ms >= end_ms:
                break

    def _call(self, queue: Queue, messages: Messages, began_ms: UptimeMs) -> ListenerCall:
        context = ConsumeContext(queue.queue, queue.max_offset)
        for message in messages:
            message.consume_started_ms = began_ms
        try:
            return ListenerCall(queue, messages, context, self._listener(messages, context))
        except BaseException as error:  # noqa: BLE001 (judged in the event loop, with the calls before it)
            return ListenerCall(queue, messages, context, None, error)
