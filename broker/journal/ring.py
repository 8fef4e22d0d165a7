"""A bounded list of entries, oldest first, whose end is cheap: chunks, each with the clock face that its times need.

This module doesn't look into entries. They are structs that the garbage collector doesn't follow, or keeping thousands
of them would cost more than making them. Entries are numbered from 1 on, without gaps. When message time is set, a new
chunk begins, so that an entry's message time can be told later.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from staticfire.protocol.clock_face import ClockFace

CHUNK_ENTRIES = 1_024
CHUNK_BYTES = 1_048_576
# Of what the entries of a chunk hold.
CHUNKS = 8
# At least so many share what there is room for: it is given up chunk by chunk.


class NotedChunk(msgspec.Struct, gc=False):
    """Entries that stand side by side."""

    first_number: int
    face: ClockFace
    """Message time by wall time, while they were noted."""
    entries: list[Any]
    held_bytes: int = 0

    @property
    def next_number(self) -> int:
        """The number behind the last one."""
        return self.first_number + len(self.entries)


class RecordRing:
    """The newest entries."""

    def __init__(
        self, entries_max: int, bytes_max: int, face: Callable[[], ClockFace], evicted: Callable[[NotedChunk], None]
    ) -> None:
        """`bytes_max`: of what entries hold (`append_bytes`). `evicted` gets each chunk that there is no room for."""
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._face = face
        self._evicted = evicted
        self._sealed: deque[NotedChunk] = deque()
        self._count = 0
        # Of entries in sealed chunks.
        self._held_bytes = 0
        self._open = NotedChunk(1, face(), [])
        self._chunk_entries = max(1, min(CHUNK_ENTRIES, entries_max // CHUNKS))
        self._chunk_bytes = max(1, min(CHUNK_BYTES, bytes_max // CHUNKS))

    def append(self, entry: Any) -> None:
        """Note an entry. Hot."""
        entries = self._open.entries
        entries.append(entry)
        if len(entries) >= self._chunk_entries:
            self._seal()

    def append_bytes(self, entry: Any, held_bytes: int) -> None:
        """Note an entry that keeps so many bytes alive. Hot."""
        chunk = self._open
        chunk.entries.append(entry)
        chunk.held_bytes += held_bytes
        if chunk.held_bytes >= self._chunk_bytes:
            self._seal()

    def clock_set(self) -> None:
        """Begin a chunk with the face that the clock has now."""
        if self._open.entries:
            self._seal()
        else:
            self._open.face = self._face()

    def _seal(self) -> None:
        chunk = self._open
        self._sealed.append(chunk)
        self._count += len(chunk.entries)
        self._held_bytes += chunk.held_bytes
        self._open = NotedChunk(chunk.next_number, self._face(), [])
        while self._sealed and (self._count > self._entries_max or self._held_bytes > self._bytes_max):
            oldest = self._sealed.popleft()
            self._count -= len(oldest.entries)
            self._held_bytes -= oldest.held_bytes
            self._evicted(oldest)

    @property
    def first_number(self) -> int:
        """The oldest entry that is here."""
        return self._sealed[0].first_number if self._sealed else self._open.first_number

    @property
    def next_number(self) -> int:
        """The number of the next entry."""
        return self._open.next_number

    def chunks(self) -> list[NotedChunk]:
        """Return all chunks, oldest first; the last one may still grow."""
        return [*self._sealed, self._open]
