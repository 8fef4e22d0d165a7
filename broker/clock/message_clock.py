"""Message time: the basis of stored and due times, timers, transaction ages and retention.

It starts as the machine's wall clock, and can be frozen, set, or run at another rate. It never goes back. A new setting
is saved in a file before it is used, so that a broker that is killed continues in the same message time.

A broker that starts, or becomes the master, doesn't know whether time was changed meanwhile. Until it has the
nameserver's time, nothing becomes due, and its own time is a guess that may still be corrected downwards.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.durations import MOMENT_MS_MAX
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.clock import MODES, RATE_MAX, ClockReading
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import Clock, Files
from staticfire.runtime.state_file import SEAL_BYTES, read_state_file, seal_state

FILE = "staticfireClock.json"
LINE_BYTES = 256


class MessageClock:
    """The broker's message time."""

    def __init__(self, clock: Clock, files: Files, path: str) -> None:
        self._wall_ms = clock.wall_ms
        self._files = files
        self._path = path
        self._face = ClockFace()
        self._is_wall = True
        self._not_before_ms = MessageMs(0)
        self._has_begun = False
        self.shown_ms = MessageMs(0)
        """The last time that was returned.

        Code that needs no newer time, as for the messages of one burst, can use it.
        """
        self._listeners: list[Callable[[], None]] = []
        self._on_begin: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the time was set, so that code that waits for a due time checks again."""
        self._listeners.append(listener)

    def on_begin(self, listener: Callable[[], None]) -> None:
        """Call `listener` when messages may become due."""
        self._on_begin.append(listener)

    def begin_anew(self) -> None:
        """Forget the listeners and the last time returned, because records with that time will be removed."""
        self._listeners.clear()
        self._on_begin.clear()
        self.shown_ms = self._not_before_ms = MessageMs(0)
        self._has_begun = False

    def begin(self) -> None:
        """Let messages become due: the broker has the nameserver's time, or doesn't wait for it any longer."""
        self._has_begun = True
        for listener in self._on_begin:
            listener()

    @property
    def has_begun(self) -> bool:
        """Whether messages may become due. A slave's clock never begins."""
        return self._has_begun

    @property
    def is_wall(self) -> bool:
        """Whether it shows the real time, and was never set."""
        return self._is_wall

    def message_ms(self) -> MessageMs:
        """Return the current message time."""
        now_ms = self._wall_ms()
        if not self._is_wall:
            now_ms = self._face.at(now_ms)
        if now_ms < self.shown_ms:
            return self.shown_ms
        self.shown_ms = now_ms
        return now_ms

    @property
    def face(self) -> ClockFace:
        """The function from wall time to message time, valid until the clock is set."""
        return self._face

    @property
    def epoch(self) -> int:
        return self._face.epoch

    @property
    def stands(self) -> bool:
        """Whether time is frozen. Then nothing becomes due by itself."""
        return self._face.stands

    def uptime_until_ms(self, message_ms: MessageMs) -> int | None:
        """Return the number of real milliseconds until that time; None while time is frozen."""
        if self._face.stands:
            return None
        return max(0, int((message_ms - self.message_ms()) / self._face.rate + 0.999))

    def not_before(self, message_ms: MessageMs) -> None:
        """Never return an earlier time than that: the last stored time."""
        self._not_before_ms = max(self._not_before_ms, message_ms)
        self.shown_ms = max(self.shown_ms, message_ms)

    def set(self, reading: ClockReading) -> None:
        """Set the time, but not before the last time returned. Raises: StorageError (it can't be saved).

        A running clock may be a few milliseconds ahead of the time that the nameserver sent. It never goes back, so the
        caller must read it afterwards. Before `begin` it may go back to the last stored time.
        """
        shown_ms = max(reading.message_ms, self.shown_ms if self._has_begun else self._not_before_ms)
        face = ClockFace.showing(replace(reading, message_ms=shown_ms), self._wall_ms())
        self._keep(face)
        self._face, self._is_wall = face, False
        self.shown_ms = MessageMs(shown_ms)
        for listener in self._listeners:
            listener()

    def follow(self, reading: ClockReading) -> None:
        """Set the nameserver's time, if it differs from this clock's setting. Raises: StorageError.

        With the same epoch, the rate differs if this broker didn't know whether a move was still in progress.
        """
        if reading.epoch > self.epoch or (reading.epoch == self.epoch and reading.rate != self._face.rate):
            self.set(reading)

    def continue_alone(self) -> None:
        """Let time continue if it was stopped for a move: the nameserver is away. Raises: StorageError."""
        if self._face.rate_after > 0:
            self.set(self.reading().continued())

    def reading(self) -> ClockReading:
        """Return the current setting and time."""
        face = self._face
        return ClockReading(face.epoch, face.mode, face.rate, self.message_ms(), face.rate_after)

    def restore(self) -> None:
        """Restore the setting of the last process. Raises: StorageError (the file can't be read)."""
        face = read_state_file(self._files, self._path, _read_face, "move it away and start with the wall clock")
        if face is not None:
            self._face, self._is_wall = face, False

    def _keep(self, face: ClockFace) -> None:
        # The file is overwritten in place without fsync: a step of an advance is one short write, and it survives a
        # kill. After a power loss the newest stored time replaces what is lost. Only the first write is synced, because
        # the file might be empty otherwise. All later writes overwrite the same sector.
        line = seal_state((msgspec.json.encode(face) + b"\n").ljust(LINE_BYTES - SEAL_BYTES))
        try:
            if not self._files.exists(self._path):
                self._files.replace(self._path, line)
                return
            file = self._files.open(self._path)
            try:
                file.write(0, line)
            finally:
                file.close()
        except OSError as error:
            raise StorageError(f"{self._path} can't be written: {error}") from None


def _read_face(data: bytes) -> ClockFace:
    """Return the content of the file. Raises: msgspec.MsgspecError, ValueError (an impossible time or rate)."""
    face = msgspec.json.decode(data.split(b"\n", 1)[0], type=ClockFace)
    is_possible = face.mode in MODES and face.epoch >= 0
    is_possible &= 0 <= face.rate <= RATE_MAX and 0 <= face.rate_after <= RATE_MAX
    if not is_possible or not 0 <= face.base_ms <= MOMENT_MS_MAX or not 0 <= face.base_wall_ms <= MOMENT_MS_MAX:
        raise ValueError(f"a clock can't be {face.mode} at {face.rate}, {face.base_ms} at {face.base_wall_ms}")
    return face
