"""Calls a listener of ordered consumption, one call after another: in the event loop, or in a thread.

A visit to a thread costs more than most calls. So one visit makes several calls for its queue, for a few milliseconds,
and stops at a result that isn't a plain success. The results are processed in the event loop.
"""

from collections.abc import Sequence
from typing import Any

from staticfire.client.consume.listeners.threaded_calls import CALLS_PER_VISIT_MAX, VISIT_MS
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.client.consume.results.ordered_results import OrderedContext, OrderedStatus
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock

__all__ = ["CALLS_PER_VISIT_MAX", "OrderedCall", "OrderedThreadedCalls"]


Queue = AssignedQueue[OrderedPolicy]


class OrderedCall:
    """One finished call. A listener may return anything."""

    __slots__ = ("context", "error", "messages", "status", "took_ms")

    def __init__(
        self, messages: Messages, context: OrderedContext, status: Any, error: BaseException | None = None
    ) -> None:
        self.messages = messages
        self.context = context
        self.status = status
        self.error = error
        self.took_ms = 0

    @property
    def is_plain_success(self) -> bool:
        """Whether the next call may follow without a look at this result."""
        return self.status is OrderedStatus.SUCCESS and self.context.auto_commit


class OrderedThreadedCalls:
    """Calls the listener in threads."""

    def __init__(self, listener: Any, clock: Clock) -> None:
        self.is_leaving = False
        self._listener = listener
        self._clock = clock
        self._in_threads: set[int] = set()  # By id() of the queue. Never iterated.

    @property
    def running(self) -> int:
        """How many threads are in the listener, including those that are no longer waited for."""
        return len(self._in_threads)

    def is_calling(self, queue: Queue) -> bool:
        """Whether a thread is in the listener with messages of a queue, including one that is no longer waited for."""
        return id(queue) in self._in_threads

    def visit(self, queue: Queue, batches: Sequence[Messages]) -> list[OrderedCall]:
        """Make calls until one isn't a plain success, or the time of a visit is over. Runs in a thread."""
        self._in_threads.add(id(queue))
        try:
            return self._visit(queue, batches)
        finally:
            self._in_threads.discard(id(queue))

    def _visit(self, queue: Queue, batches: Sequence[Messages]) -> list[OrderedCall]:
        made: list[OrderedCall] = []
        uptime_ms = self._clock.uptime_ms()
        end_ms = uptime_ms + VISIT_MS
        for messages in batches:
            if self.is_leaving or not queue.may_consume(uptime_ms) or uptime_ms >= end_ms:
                break
            call = self._call(queue, messages, uptime_ms)
            made.append(call)
            began_ms, uptime_ms = uptime_ms, self._clock.uptime_ms()
            call.took_ms = uptime_ms - began_ms
            if not call.is_plain_success:
                break
        return made

    def _call(self, queue: Queue, messages: Messages, started_ms: UptimeMs) -> OrderedCall:
        context = OrderedContext(queue.queue, queue.max_offset)
        for message in messages:
            message.consume_started_ms = started_ms
        try:
            return OrderedCall(messages, context, self._listener(messages, context))
        except BaseException as error:  # noqa: BLE001 (judged in the event loop, with the calls before it)
            return OrderedCall(messages, context, None, error)
