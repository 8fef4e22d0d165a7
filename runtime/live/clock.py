"""The machine's two clocks: the monotonic one, which never jumps, and the wall clock, which may."""

import time

from staticfire.protocol.times import MessageMs, UptimeMs


class LiveClock:
    """Clocks of the operating system.

    The monotonic one is where asyncio's and uvloop's loops take their time from. It is asked here without the loop:
    that also works in a worker, and costs a third.
    """

    __slots__ = ()

    uptime_ns = staticmethod(time.monotonic_ns)

    def uptime_ms(self) -> UptimeMs:
        return UptimeMs(time.monotonic_ns() // 1_000_000)

    def wall_ms(self) -> MessageMs:
        return MessageMs(time.time_ns() // 1_000_000)
