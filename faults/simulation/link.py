"""The way from one process to another: all arrives in the order in which it was sent, or waits while the link is cut.

A cut link loses nothing for good, as TCP would send it again: what was under way arrives after the link is healed.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random

from staticfire.faults.simulation.loop import JumpingLoop


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """How a link carries."""

    delay_ms: float = 0.1
    jitter_ms: float = 0.0
    """Added to the delay, evenly distributed between 0 and this. Order is kept."""
    fragments: bool = False
    """Bytes arrive in pieces, cut at places by chance."""
    window_bytes: int = 256 * 1024
    """Of a connection: as much is under way or unread at the other side before the sender has to buffer."""


class Link:
    """One direction between two processes."""

    def __init__(self, loop: JumpingLoop, quality: LinkQuality, chance: Random) -> None:
        self.quality = quality
        self.is_cut = False
        self._loop = loop
        self._chance = chance
        self._last_arrival_ns = 0
        self._held: deque[Callable[[], object]] = deque()

    def carry(self, arrive: Callable[[], object]) -> None:
        """Call `arrive` when it has got to the other end."""
        arrival_ns = max(self._loop.uptime_ns + self._delay_ns(), self._last_arrival_ns)
        self._last_arrival_ns = arrival_ns
        self._loop.call_at_ns(arrival_ns, self._arrived, arrive, context=WIRE)

    def cut(self) -> None:
        self.is_cut = True

    def heal(self) -> None:
        """Let everything through again, what waited first."""
        if self.is_cut:
            self.is_cut = False
            self._loop.call_at_ns(self._loop.uptime_ns + self._delay_ns(), self._resend, context=WIRE)

    def piece_bytes(self, available_bytes: int) -> int:
        """Return how many of the bytes that are there are read at once."""
        return self._chance.randint(1, available_bytes) if self.quality.fragments else available_bytes

    def _delay_ns(self) -> int:
        delay_ms = self.quality.delay_ms
        if self.quality.jitter_ms:
            delay_ms += self._chance.random() * self.quality.jitter_ms
        return round(delay_ms * 1e6)

    def _arrived(self, arrive: Callable[[], object]) -> None:
        # What is held was sent before this.
        if self.is_cut or self._held:
            self._held.append(arrive)
        else:
            arrive()

    def _resend(self) -> None:
        while self._held and not self.is_cut:
            self._held.popleft()()


WIRE = Context()
"""What happens on the wire happens in no process, so no kill and no freeze stops it."""
