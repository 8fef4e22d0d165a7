"""Incomplete frames: those whose first bytes have arrived and whose rest is missing, over all connections of a server.

Their bytes are buffered until the rest arrives, up to 16 MiB per frame, and any client may begin one. So there is a
limit for all of them together. Above it, the oldest frames are dropped and their connections closed: the frame of a
normal client is complete within a moment, and no client waits any more for the response to an old one. Pure: the
connections to close are returned.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from staticfire.protocol.times import UptimeMs

C = TypeVar("C", bound=Hashable)


class _Begun(NamedTuple):
    unread_bytes: int
    since_ms: UptimeMs


class UnfinishedFrames(Generic[C]):
    """The incomplete frames by connection, oldest first."""

    def __init__(self, bytes_max: int, frame_ms_max: int) -> None:
        self._bytes_max = bytes_max
        self._frame_ms_max = frame_ms_max
        self._begun: dict[C, _Begun] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        return len(self._begun)

    def note(self, connection: C, unread_bytes: int, is_new: bool, uptime_ms: UptimeMs) -> list[C]:
        """Record the number of unread bytes of a connection; return the connections to close because of it."""
        before = self._begun.get(connection)
        if before is not None and not is_new:
            self.total_bytes += unread_bytes - before.unread_bytes
            self._begun[connection] = before._replace(unread_bytes=unread_bytes)
        else:
            self.forget(connection)
            if unread_bytes:
                self._begun[connection] = _Begun(unread_bytes, uptime_ms)
                self.total_bytes += unread_bytes
        too_much: list[C] = []
        while self.total_bytes > self._bytes_max:
            oldest = next(iter(self._begun))
            self.forget(oldest)
            too_much.append(oldest)
        return too_much

    def forget(self, connection: C) -> None:
        """Forget a connection: its frame is complete, or it was closed."""
        begun = self._begun.pop(connection, None)
        if begun is not None:
            self.total_bytes -= begun.unread_bytes

    def overdue(self, uptime_ms: UptimeMs) -> list[C]:
        """Return the connections whose frame wasn't completed in time."""
        return [
            connection for connection, begun in self._begun.items() if uptime_ms - begun.since_ms >= self._frame_ms_max
        ]
