"""Limits for frames that cost us work and carry nothing (RST_STREAM, PING, ...), per connection and kind of frame.

A connection may send a burst. When the burst is used up, it is refilled by the time that has passed (`per_s`) and by
what the connection has earned meanwhile: a client that receives much may send many PINGs and window updates.
"""

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.limits import Rate


class FrameAllowance:
    """The allowance of one connection for one kind of frame."""

    __slots__ = ("_burst", "_earned", "_left", "_name", "_per_s", "_since")

    def __init__(self, name: str, rate: Rate, uptime_ms: UptimeMs) -> None:
        """`name`: the name of the limit, for the error message."""
        self._name = name
        self._burst, self._per_s = rate
        self._left = self._burst
        self._since = uptime_ms
        self._earned = 0

    def take(self, uptime_ms: UptimeMs, earned: int = 0) -> None:
        """Count a frame. `earned`: the total of additional frames that the connection was granted since it began.

        Raises: Http2Fault when there were too many frames.
        """
        self._left -= 1
        if self._left >= 0:
            return
        refill = (uptime_ms - self._since) * self._per_s // 1000 + earned - self._earned
        if refill < 1:
            words = f"too many frames of a kind ({self._name}): {self._burst} at once, then {self._per_s} a second"
            raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)
        self._since, self._earned = uptime_ms, earned
        self._left = min(self._burst, refill) - 1
