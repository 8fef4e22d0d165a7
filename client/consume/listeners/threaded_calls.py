"""Calls a listener that is a plain function, in threads.

A visit to a thread costs more than most calls, so one visit makes as many calls as fit into a few milliseconds. The
threads share the deque of waiting calls. The event loop only appends to it, and processes the results.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from staticfire.client.consume.queues.concurrent_policy import ConcurrentPolicy
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import ConsumeContext, Messages
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock

if TYPE_CHECKING:
    from staticfire.client.consume.popping.pop_queue import PopQueue

Queue: TypeAlias = "AssignedQueue[ConcurrentPolicy] | PopQueue"
Waiting: TypeAlias = "tuple[Queue, Messages]"
"""A call that has not begun."""

CALLS_PER_VISIT_MAX = 32
# After this time the visit ends with its current call, so that finished calls don't wait long for the others.
VISIT_MS = 5


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


class ThreadedCalls:
    """The listener and the calls that wait for it."""

    def __init__(self, listener: Any, waiting: deque[Waiting], clock: Clock) -> None:
        self.is_leaving = False
        # The threads that are in the listener, by id() of their list of calls.
        self._visits: dict[int, None] = {}
        self._listener = listener
        self._waiting = waiting
        self._clock = clock

    @property
    def running(self) -> int:
        """How many threads are in the listener, including those that are no longer waited for."""
        return len(self._visits)

    def visit(self) -> list[ListenerCall]:
        """Make calls until none waits, or the time of a visit is over. Runs in a thread."""
        made: list[ListenerCall] = []
        self._visits[id(made)] = None
        try:
            self._make(made)
        finally:
            del self._visits[id(made)]
        return made

    def _make(self, made: list[ListenerCall]) -> None:
        began_ms = self._clock.uptime_ms()
        end_ms = began_ms + VISIT_MS
        while len(made) < CALLS_PER_VISIT_MAX and not self.is_leaving:
            try:
                queue, messages = self._waiting.popleft()
            except IndexError:
                break
            if queue.is_dropped:
                continue
            call = self._call(queue, messages, began_ms)
            made.append(call)
            ended_ms = self._clock.uptime_ms()
            call.took_ms = ended_ms - began_ms
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
