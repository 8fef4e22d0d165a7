"""Message time: what stored and due times, timers, transaction ages and retention run on.

It starts as the machine's wall clock and can be moved away from it: frozen, set, run at a rate. It never goes back.
What it shows is kept in a file before it is acted on, so that a broker killed in the middle comes up in the same
message time.

    message time = base + (wall clock - wall clock when the base was set) x rate
"""

from collections.abc import Callable

import msgspec

from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.clock import REAL, ClockReading
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import Clock, Files

FILE = "staticfireClock.json"


class _Saved(msgspec.Struct, rename="camel"):
    epoch: int
    mode: str
    rate: float
    base_ms: int
    base_wall_ms: int


class MessageClock:
    """The broker's message time."""

    def __init__(self, clock: Clock, files: Files, path: str) -> None:
        self._wall_ms = clock.wall_ms
        self._files = files
        self._path = path
        self._last_ms = MessageMs(0)
        self._base_ms = 0
        self._base_wall_ms = 0
        self._is_wall = True
        self.epoch = 0
        self.mode = REAL
        self.rate = 1.0
        self.changed: Callable[[], None] = lambda: None
        """Called when the time was set: what waits for a due time has to look again."""

    def message_ms(self) -> MessageMs:
        """Return the current message time."""
        now_ms = self._wall_ms()
        if not self._is_wall:
            now_ms = MessageMs(self._base_ms + int((now_ms - self._base_wall_ms) * self.rate))
        if now_ms < self._last_ms:
            return self._last_ms
        self._last_ms = now_ms
        return now_ms

    def uptime_until_ms(self, message_ms: MessageMs) -> int | None:
        """Return in how many real milliseconds that time comes; None when the clock doesn't run."""
        if self.rate <= 0:
            return None
        return max(0, int((message_ms - self.message_ms()) / self.rate + 0.999))

    def not_before(self, message_ms: MessageMs) -> None:
        """Let time begin no earlier than that: the last time stored before a restart."""
        self._last_ms = max(self._last_ms, message_ms)

    def set(self, reading: ClockReading) -> None:
        """Show another time from now on. Raises: StorageError (going back, or it can't be kept)."""
        if reading.message_ms < self._last_ms:
            words = (
                f"message time can't go back from {self._last_ms} to {reading.message_ms}: messages are stored with it"
            )
            raise StorageError(words)
        saved = _Saved(reading.epoch, reading.mode, reading.rate, reading.message_ms, self._wall_ms())
        self._keep(saved)
        self._take(saved)
        self._last_ms = MessageMs(reading.message_ms)
        self.changed()

    def reading(self) -> ClockReading:
        """Return what it shows."""
        return ClockReading(self.epoch, self.mode, self.rate, self.message_ms())

    def restore(self) -> None:
        """Take up where the last process left. Raises: StorageError (the file can't be read)."""
        if not self._files.exists(self._path):
            return
        try:
            text = self._files.read_bytes(self._path).split(b"\n", 1)[0]
            self._take(msgspec.json.decode(text, type=_Saved))
        except (msgspec.MsgspecError, OSError) as error:
            words = f"{self._path} can't be read: {error}; move it away to start with the wall clock"
            raise StorageError(words) from None

    def _take(self, saved: _Saved) -> None:
        self.epoch, self.mode, self.rate = saved.epoch, saved.mode, saved.rate
        self._base_ms, self._base_wall_ms = saved.base_ms, saved.base_wall_ms
        self._is_wall = False

    def _keep(self, saved: _Saved) -> None:
        # Written in place and without fsync: a step of an advance is one short write, and it survives a kill. What a
        # power failure takes is made good by the newest stored time.
        line = msgspec.json.encode(saved) + b"\n"
        try:
            file = self._files.open(self._path)
            file.write(0, line.ljust(256))
            file.close()
        except OSError as error:
            raise StorageError(f"{self._path} can't be written: {error}") from None
