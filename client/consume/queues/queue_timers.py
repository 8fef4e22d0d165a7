"""One timer per queue. The earliest time that a queue requests counts; when it rings, the queue sets the next."""

import asyncio
from collections.abc import Callable
from typing import Any

from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock


class QueueTimers:
    """The timers of one consumer's queues."""

    def __init__(self, clock: Clock, ring: Callable[[Any, UptimeMs], None]) -> None:
        """`ring`: called with a queue and the time, at or after the requested time."""
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Any, tuple[UptimeMs, asyncio.TimerHandle]] = {}

    def set(self, queue: Any, until_ms: UptimeMs) -> None:
        """Set a queue's timer, unless it already rings earlier."""
        if queue in self._timers:
            rings_ms, timer = self._timers[queue]
            if rings_ms <= until_ms:
                return
            timer.cancel()
        delay_s = max(0, until_ms - self._clock.uptime_ms()) / 1000
        self._timers[queue] = (until_ms, self._loop.call_later(delay_s, self._rings, queue, until_ms))

    def forget(self, queue: Any) -> None:
        """Cancel a queue's timer."""
        if queue in self._timers:
            self._timers.pop(queue)[1].cancel()

    def _rings(self, queue: Any, until_ms: UptimeMs) -> None:
        self._timers.pop(queue, None)
        self._ring(queue, max(until_ms, self._clock.uptime_ms()))
