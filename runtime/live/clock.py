"""The machine's two clocks: the monotonic one, which never jumps, and the wall clock, which may."""

import time

from staticfire.protocol.times import MessageMs, UptimeMs


class LiveClock:
    """The clocks of the operating system.

    The monotonic clock is the one that the event loops of asyncio and uvloop use. It is read here without the loop:
    this also works in a worker thread, and costs a third.
    """

    __slots__ = ()

    uptime_ns = staticmethod(time.monotonic_ns)

    def uptime_ms(self) -> UptimeMs:
        return UptimeMs(time.monotonic_ns() // 1_000_000)

    def wall_ms(self) -> MessageMs:
        return MessageMs(time.time_ns() // 1_000_000)
