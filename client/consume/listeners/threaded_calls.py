"""Calls of a listener that is a plain function, in a thread.

A visit to a thread costs more than most calls, so one visit makes as many as fit into a few milliseconds. Several
threads share the deque of what waits; the event loop only appends to it, and what comes of the calls is settled there.
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
"""One call to come."""

CALLS_PER_VISIT_MAX = 32
VISIT_MS = 5
# After that a visit ends with the call it is at, so that results don't wait for each other for long.


class ListenerCall:
    """One call that was made. A listener may return anything."""

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
    """The listener with what waits for it."""

    def __init__(self, listener: Any, waiting: deque[Waiting], clock: Clock) -> None:
        self.is_leaving = False
        self._visits: dict[int, None] = {}  # Of threads that are in the listener, by id() of what they have made.
        self._listener = listener
        self._waiting = waiting
        self._clock = clock

    @property
    def running(self) -> int:
        """How many threads are in the listener, also when nothing waits for them any more."""
        return len(self._visits)

    def visit(self) -> list[ListenerCall]:
        """Make calls until nothing waits or the visit has taken long enough. Runs in a thread."""
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
            began_ms = ended_ms  # The next call begins where this one has ended.
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
