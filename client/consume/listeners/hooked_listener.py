"""Calls hooks before and after each call of a listener. Without hooks the listener isn't wrapped."""

from functools import wraps
from typing import Any

from staticfire.client.cluster.program_errors import is_async
from staticfire.client.consume.queues.time_limits import TimeLimits
from staticfire.client.consume.results.consume_results import ConsumeStatus, Messages
from staticfire.client.consume.results.hooks import ConsumeCall, ConsumerHooks
from staticfire.client.consume.results.ordered_results import OrderedContext, OrderedStatus
from staticfire.runtime.machine import Clock


def with_hooks(listener: Any, group: str, hooks: ConsumerHooks, limits: TimeLimits, clock: Clock) -> Any:
    """Return the listener or, if there are hooks, a wrapper of the same kind that calls them and raises the same."""
    if not hooks.hears_of("consume"):
        return listener
    around = _Around(group, hooks, limits, clock)

    @wraps(listener)
    async def awaited(messages: Messages, context: Any) -> Any:
        call, began_ms = around.begin(messages, context)
        try:
            status = await listener(messages, context)
        except BaseException as error:
            around.end(call, began_ms, None, error)
            raise
        around.end(call, began_ms, status, None)
        return status

    @wraps(listener)
    def called(messages: Messages, context: Any) -> Any:
        call, began_ms = around.begin(messages, context)
        try:
            status = listener(messages, context)
        except BaseException as error:
            around.end(call, began_ms, None, error)
            raise
        around.end(call, began_ms, status, None)
        return status

    return awaited if is_async(listener) else called


class _Around:
    def __init__(self, group: str, hooks: ConsumerHooks, limits: TimeLimits, clock: Clock) -> None:
        self._group = group
        self._hooks = hooks
        self._limits = limits
        self._uptime_ms = clock.uptime_ms

    def begin(self, messages: Messages, context: Any) -> tuple[ConsumeCall, int]:
        statuses = OrderedStatus if isinstance(context, OrderedContext) else ConsumeStatus
        call = ConsumeCall(self._group, context.queue, messages, statuses)
        self._hooks.call("before_consume", call)
        return call, self._uptime_ms()

    def end(self, call: ConsumeCall, began_ms: int, status: object, error: BaseException | None) -> None:
        call.took_ms = self._uptime_ms() - began_ms
        self._hooks.consumed(call, status, error, self._limits.consume_timeout_ms)
