"""Doesn't call the listener for popped messages whose invisible time has ended: another consumer may have them."""

from functools import wraps
from typing import Any

from staticfire.client.cluster.program_errors import is_async
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, Messages
from staticfire.client.pop.popped import PoppedMessage
from staticfire.runtime.machine import Clock


def without_expired(listener: Any, clock: Clock) -> Any:
    """Return a listener of the same kind, which returns RECONSUME_LATER for expired messages."""
    uptime_ms = clock.uptime_ms

    def is_late(messages: Messages) -> bool:
        """Look at the first message only: all were popped together."""
        first = messages[0]
        return isinstance(first, PoppedMessage) and uptime_ms() >= first.invisible_until_ms

    @wraps(listener)
    async def awaited(messages: Messages, context: ConsumeContext) -> Any:
        return ConsumeStatus.RECONSUME_LATER if is_late(messages) else await listener(messages, context)

    @wraps(listener)
    def called(messages: Messages, context: ConsumeContext) -> Any:
        return ConsumeStatus.RECONSUME_LATER if is_late(messages) else listener(messages, context)

    return awaited if is_async(listener) else called
