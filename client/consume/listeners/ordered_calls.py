"""Calls a listener of ordered consumption, one call after another: in the event loop, or in a thread.

A visit to a thread costs more than most calls. So one visit makes several calls for its queue, for a few milliseconds,
and stops at a result that isn't a plain success. The results are processed in the event loop, after the visit. Before
offsets are stored, the successes of visits that aren't over are committed as well.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from staticfire.client.consume.listeners.threaded_calls import CALLS_PER_VISIT_MAX, VISIT_MS, ThreadVisit, ThreadVisits
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.client.consume.results.ordered_results import OrderedContext, OrderedStatus
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock, ForeignThreads

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


class OrderedThreadedCalls(ThreadVisits[Queue, OrderedCall]):
    """The listener. The key of a visit is the queue for which it makes calls."""

    def __init__(self, listener: Any, clock: Clock, threads: ForeignThreads) -> None:
        super().__init__(clock, threads)
        self._listener = listener

    # -- in the event loop ---------------------------------------------------------------------------------------

    def is_calling(self, queue: Queue) -> bool:
        """Whether a thread is in the listener with messages of a queue, including one that is no longer waited for."""
        visit = self._visits.get(queue)
        return visit is not None and visit.is_in_thread

    async def visit(self, queue: Queue, batches: Sequence[Messages]) -> tuple[list[OrderedCall], int]:
        """Make calls in a thread until one isn't a plain success, or the time of a visit is over.

        Return the calls that aren't taken, and the number of all calls.
        """
        visit = await self.run(queue, partial(self._make, queue, batches))
        return visit.take(), visit.taken

    def take_finished(self) -> list[tuple[Queue, OrderedCall]]:
        """Remove and return the plain successes of all visits, in order. Another result may only be the last one."""
        found = []
        for queue, visit in self._visits.items():
            made = visit.made[:]
            successes = len(made) if not made or made[-1].is_plain_success else len(made) - 1
            found += [(queue, call) for call in visit.take(successes)]
        return found

    # -- in a thread ---------------------------------------------------------------------------------------------

    def _make(
        self, queue: Queue, batches: Sequence[Messages], visit: ThreadVisit[OrderedCall], uptime_ms: UptimeMs
    ) -> None:
        end_ms = uptime_ms + VISIT_MS
        for messages in batches:
            if visit.is_ending or not queue.may_consume(uptime_ms) or uptime_ms >= end_ms:
                break
            call = self._call(queue, messages, uptime_ms)
            began_ms, uptime_ms = uptime_ms, self._clock.uptime_ms()
            call.took_ms = uptime_ms - began_ms
            visit.made.append(call)
            if not call.is_plain_success:
                break

    def _call(self, queue: Queue, messages: Messages, started_ms: UptimeMs) -> OrderedCall:
        context = OrderedContext(queue.queue, queue.max_offset)
        for message in messages:
            message.consume_started_ms = started_ms
        try:
            return OrderedCall(messages, context, self._listener(messages, context))
        except BaseException as error:  # noqa: BLE001 (judged in the event loop, with the calls before it)
            return OrderedCall(messages, context, None, error)
