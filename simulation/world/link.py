"""The way from one process to another: all arrives in the order in which it was sent, or waits while the link is cut.

Nothing is lost for good, as TCP would send it again: what a cut link had under way arrives after it is healed, and a
piece that is lost arrives late, with all that was sent behind it.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random

from staticfire.simulation.world.loop import JumpingLoop

RESEND_MS, RESEND_MS_MAX = 200.0, 60_000.0
# As TCP does it, about.


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
    has_tail: bool = False
    """The jitter is exponentially distributed with `jitter_ms` as its mean: few pieces take very long."""
    loss: float = 0.0
    """The share of pieces that are lost and sent again, after 200 ms, 400 ms, and so on."""
    resets: float = 0.0
    """The share of pieces that end their connection instead: both sides find it reset."""
    bytes_per_second: float = 0.0
    """0: no limit."""
    reorders: bool = False
    """Only within a connection the order is kept."""


class Lane:
    """What of a link belongs to one connection."""

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
        """Carry like that from now on."""
        self.quality = quality
        leaves_no_chance = not (quality.jitter_ms or quality.loss or quality.bytes_per_second or quality.reorders)
        self._same_delay_ns = round(quality.delay_ms * 1e6) if leaves_no_chance else None
        self.may_reset = quality.resets > 0

    def carry(self, arrive: Callable[..., object], *what: object, lane: Lane | None = None, size: int = 0) -> None:
        """Call `arrive` with what there is when it has got to the other end. `lane`: of its connection."""
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
        """Let everything through again, what waited first."""
        if self.is_cut:
            self.is_cut = False
            self._loop.call_at_ns(self._loop.uptime_ns + self._delay_ns(), self._resend, context=WIRE)

    def piece_bytes(self, available_bytes: int) -> int:
        """Return how many of the bytes that are there are read at once."""
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
        """Return how long the link is busy with this and all before it."""
        now_ns = self._loop.uptime_ns
        self._free_at_ns = max(now_ns, self._free_at_ns) + round(size / self.quality.bytes_per_second * 1e9)
        return self._free_at_ns - now_ns

    def resets(self) -> bool:
        """Whether this piece, by chance, ends its connection."""
        return self._chance.random() < self.quality.resets

    def _arrived(self, arrive: Callable[..., object], *what: object) -> None:
        # What is held was sent before this.
        if self.is_cut or self._held:
            self._held.append(partial(arrive, *what))
        else:
            arrive(*what)

    def _resend(self) -> None:
        while self._held and not self.is_cut:
            self._held.popleft()()


WIRE = Context()
"""What happens on the wire happens in no process, so no kill and no freeze stops it."""
