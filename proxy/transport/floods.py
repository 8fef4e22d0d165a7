"""How many frames of a kind one connection may send: a burst, then so many a second, then so many per useful frame.

A frame that costs us work and brings the client nothing is counted. A count that is used up is refilled by the time
that has passed and by what we have sent since: a client that receives a lot may ping and update windows a lot.
"""

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.limits import Rate


class FrameAllowance:
    """Frames of one kind on one connection."""

    __slots__ = ("_burst", "_earned", "_left", "_name", "_per_s", "_since")

    def __init__(self, name: str, rate: Rate, uptime_ms: UptimeMs) -> None:
        """`name`: of the limit, for the error."""
        self._name = name
        self._burst, self._per_s = rate
        self._left = self._burst
        self._since = uptime_ms
        self._earned = 0

    def take(self, uptime_ms: UptimeMs, earned: int = 0) -> None:
        """Count a frame; `earned`: how many more the connection has been granted since it began.

        Raises: Http2Fault when there were too many.
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
