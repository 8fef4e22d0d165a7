"""A timer per queue: when it is looked at again. The earliest time that it has asked for counts; then it asks anew."""

import asyncio
from collections.abc import Callable
from typing import Any

from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock


class QueueTimers:
    """Those of one consumer's queues."""

    def __init__(self, clock: Clock, ring: Callable[[Any, UptimeMs], None]) -> None:
        """`ring`: tells a queue what time it is, at or after the one that it has asked for."""
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Any, tuple[UptimeMs, asyncio.TimerHandle]] = {}

    def set(self, queue: Any, until_ms: UptimeMs) -> None:
        """Have a queue's timer ring then, unless it rings before that."""
        if queue in self._timers:
            rings_ms, timer = self._timers[queue]
            if rings_ms <= until_ms:
                return
            timer.cancel()
        delay_s = max(0, until_ms - self._clock.uptime_ms()) / 1000
        self._timers[queue] = (until_ms, self._loop.call_later(delay_s, self._rings, queue, until_ms))

    def forget(self, queue: Any) -> None:
        """Have no timer for a queue any more."""
        if queue in self._timers:
            self._timers.pop(queue)[1].cancel()

    def _rings(self, queue: Any, until_ms: UptimeMs) -> None:
        self._timers.pop(queue, None)
        self._ring(queue, max(until_ms, self._clock.uptime_ms()))
