"""The link from one process to another. Everything arrives in the order in which it was sent.

Nothing is lost for good, because TCP would send it again: what is in flight on a cut link arrives after it is healed. A
lost piece arrives late, and with it all that was sent after it.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random

from staticfire.simulation.world.loop import JumpingLoop

# Approximately as TCP does it.
RESEND_MS, RESEND_MS_MAX = 200.0, 60_000.0


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """The properties of a link."""

    delay_ms: float = 0.1
    jitter_ms: float = 0.0
    """Added to the delay, evenly distributed between 0 and this. The order is kept."""
    fragments: bool = False
    """Bytes arrive in pieces, cut at random places."""
    window_bytes: int = 256 * 1024
    """How many bytes of a connection may be in flight or unread at the other side before the sender must buffer."""
    has_tail: bool = False
    """The jitter is exponentially distributed with `jitter_ms` as its mean: a few pieces take very long."""
    loss: float = 0.0
    """The share of pieces that are lost and sent again, after 200 ms, 400 ms, and so on."""
    resets: float = 0.0
    """The share of pieces that end their connection: both sides find it reset."""
    bytes_per_second: float = 0.0
    """0: unlimited."""
    reorders: bool = False
    """The order is kept only within a connection."""


class Lane:
    """The state of one connection on a link."""

    __slots__ = ("last_arrival_ns",)

    def __init__(self) -> None:
        self.last_arrival_ns = 0


class Link:
    """One direction between two processes."""

    def __init__(self, loop: JumpingLoop, quality: LinkQuality, chance: Random) -> None:
        self.is_cut = False
        self.use(quality)
        self._loop = loop
        self._chance = chance
        self._whole = Lane()
        self._free_at_ns = 0
        self._held: deque[partial[object]] = deque()

    def use(self, quality: LinkQuality) -> None:
        """Set the properties of the link from now on."""
        self.quality = quality
        leaves_no_chance = not (quality.jitter_ms or quality.loss or quality.bytes_per_second or quality.reorders)
        self._same_delay_ns = round(quality.delay_ms * 1e6) if leaves_no_chance else None
        self.may_reset = quality.resets > 0

    def carry(self, arrive: Callable[..., object], *what: object, lane: Lane | None = None, size: int = 0) -> None:
        """Call `arrive` with its arguments when they reach the other end. `lane`: of the connection they belong to."""
        whole = self._whole
        if self._same_delay_ns is not None:
            arrival_ns = self._loop.uptime_ns + self._same_delay_ns
            if arrival_ns < whole.last_arrival_ns:
                arrival_ns = whole.last_arrival_ns
            whole.last_arrival_ns = arrival_ns
            if lane is not None:
                lane.last_arrival_ns = arrival_ns
            self._loop.call_at_ns(arrival_ns, self._arrived, arrive, *what, context=WIRE)
            return
        arrival_ns = self._loop.uptime_ns + self._delay_ns()
        if self.quality.bytes_per_second:
            arrival_ns += self._queueing_ns(size)
        if lane is not None:
            lane.last_arrival_ns = arrival_ns = max(arrival_ns, lane.last_arrival_ns)
        if not self.quality.reorders or lane is None:
            arrival_ns = max(arrival_ns, whole.last_arrival_ns)
            if lane is not None:
                lane.last_arrival_ns = arrival_ns
        whole.last_arrival_ns = max(arrival_ns, whole.last_arrival_ns)
        self._loop.call_at_ns(arrival_ns, self._arrived, arrive, *what, context=WIRE)

    def cut(self) -> None:
        self.is_cut = True

    def heal(self) -> None:
        """Let everything pass again, first what was held back."""
        if self.is_cut:
            self.is_cut = False
            self._loop.call_at_ns(self._loop.uptime_ns + self._delay_ns(), self._resend, context=WIRE)

    def piece_bytes(self, available_bytes: int) -> int:
        """Return how many of the available bytes one read returns."""
        return self._chance.randint(1, available_bytes) if self.quality.fragments else available_bytes

    def _delay_ns(self) -> int:
        quality = self.quality
        delay_ms = quality.delay_ms
        if quality.jitter_ms:
            share = self._chance.expovariate(1.0) if quality.has_tail else self._chance.random()
            delay_ms += share * quality.jitter_ms
        if quality.loss:
            delay_ms += self._resending_ms(quality.loss)
        return round(delay_ms * 1e6)

    def _resending_ms(self, loss: float) -> float:
        """Return how long it takes until a piece gets through: the pause doubles each time."""
        total_ms, pause_ms = 0.0, RESEND_MS
        while self._chance.random() < loss and total_ms < RESEND_MS_MAX:
            total_ms += pause_ms
            pause_ms *= 2
        return total_ms

    def _queueing_ns(self, size: int) -> int:
        """Return how long the link is busy with this piece and all before it."""
        now_ns = self._loop.uptime_ns
        self._free_at_ns = max(now_ns, self._free_at_ns) + round(size / self.quality.bytes_per_second * 1e9)
        return self._free_at_ns - now_ns

    def resets(self) -> bool:
        """Return at random whether this piece ends its connection."""
        return self._chance.random() < self.quality.resets

    def _arrived(self, arrive: Callable[..., object], *what: object) -> None:
        # What is held back was sent earlier, so this must wait after it.
        if self.is_cut or self._held:
            self._held.append(partial(arrive, *what))
        else:
            arrive(*what)

    def _resend(self) -> None:
        while self._held and not self.is_cut:
            self._held.popleft()()


WIRE = Context()
"""The context of events on the wire. They belong to no process, so no kill and no freeze stops them."""
