"""The state of a message clock: a time, and the rate at which it continues. Pure; wall-clock times are passed in."""

import msgspec

from staticfire.protocol.requests.clock import FROZEN, REAL, ClockReading
from staticfire.protocol.times import MessageMs


class ClockFace(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A clock that showed `base_ms` when the wall clock showed `base_wall_ms`. Epoch 0 is the wall clock itself."""

    epoch: int = 0
    mode: str = REAL
    rate: float = 1.0
    base_ms: int = 0
    base_wall_ms: int = 0
    rate_after: float = 0.0
    """As in ClockReading."""

    def at(self, wall_ms: int) -> MessageMs:
        """Return the message time at a wall-clock time."""
        if self.epoch == 0:
            return MessageMs(wall_ms)
        return MessageMs(self.base_ms + int((wall_ms - self.base_wall_ms) * self.rate))

    def reading(self, wall_ms: int) -> ClockReading:
        """Return the clock's state, to be sent to the peer of a connection."""
        return ClockReading(self.epoch, self.mode, self.rate, self.at(wall_ms), self.rate_after)

    @classmethod
    def showing(cls, reading: ClockReading, wall_ms: int) -> "ClockFace":
        """Return a clock that continues from a reading taken now."""
        return cls(reading.epoch, reading.mode, reading.rate, reading.message_ms, wall_ms, reading.rate_after)

    def moved(self, wall_ms: int, mode: str, rate: float, message_ms: int) -> "ClockFace":
        """Return the next clock, with another time, mode or rate from now on."""
        return ClockFace(self.epoch + 1, mode, rate, message_ms, wall_ms)

    def stopped(self, wall_ms: int, message_ms: int) -> "ClockFace":
        """Return the next clock, which is stopped for a move. After the move it has the rate of this one."""
        return ClockFace(self.epoch + 1, self.mode, 0.0, message_ms, wall_ms, self.rate_after or self.rate)

    @property
    def stands(self) -> bool:
        return self.mode == FROZEN or self.rate <= 0
