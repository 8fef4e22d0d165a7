"""Message time: what stored and due times, timers, transaction ages and retention run on.

It starts as the machine's wall clock and never goes back.
"""

from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import Clock


class MessageClock:
    """The broker's message time."""

    def __init__(self, clock: Clock) -> None:
        self._wall_ms = clock.wall_ms
        self._last_ms = MessageMs(0)

    def message_ms(self) -> MessageMs:
        """Return the current message time."""
        now_ms = self._wall_ms()
        if now_ms < self._last_ms:
            return self._last_ms
        self._last_ms = now_ms
        return now_ms

    def not_before(self, message_ms: MessageMs) -> None:
        """Let time begin no earlier than that: the last time stored before a restart."""
        self._last_ms = max(self._last_ms, message_ms)
