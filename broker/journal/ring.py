"""A bounded list of entries, oldest first, whose end is cheap: `append` is a list's own.

What that list has is put into chunks a few times a second; the oldest chunks go when there is no room. Each has the
clock face that the times of its entries need: when message time is set, a new chunk begins. This module doesn't look
into entries. They are structs that the garbage collector doesn't follow, or keeping thousands of them would cost more
than making them. They are numbered from 1 on, without gaps.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from staticfire.protocol.clock_face import ClockFace

CHUNK_ENTRIES = 1_024
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
        self,
        entries_max: int,
        face: ClockFace,
        evicted: Callable[[NotedChunk], None],
        bytes_max: int = 0,
        size_of: Callable[[Any], int] | None = None,
    ) -> None:
        """`evicted` gets each chunk that there is no room for. `bytes_max`: of the sizes of all entries."""
        self._entries_max = entries_max
        self._face = face
        self._evicted = evicted
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._chunk_entries = max(1, min(CHUNK_ENTRIES, entries_max // CHUNKS))
        self._sealed: deque[NotedChunk] = deque()
        self._count = 0
        # Of entries in sealed chunks.
        self._held_bytes = 0
        self._next_number = 1
        # Of the first entry in no chunk.
        self._entries: list[Any] = []
        self.append = self._entries.append
        """Notes an entry."""

    def tidy(self) -> None:
        """Put what was noted into chunks, and give up what there is no room for. Often enough: see logs.py."""
        if len(self._entries) >= self._chunk_entries or self._size_of is not None:
            self._seal()

    def clock_set(self, face: ClockFace) -> None:
        """From now on entries have another face of the clock."""
        self._seal()
        self._face = face

    def _seal(self) -> None:
        entries = self._entries[:]
        self._entries.clear()
        for part, held_bytes in self._parts(entries):
            self._sealed.append(NotedChunk(self._next_number, self._face, part, held_bytes))
            self._next_number += len(part)
            self._count += len(part)
            self._held_bytes += held_bytes
        while self._sealed and (self._count > self._entries_max or self._held_bytes > self._bytes_max):
            oldest = self._sealed.popleft()
            self._count -= len(oldest.entries)
            self._held_bytes -= oldest.held_bytes
            self._evicted(oldest)

    def _parts(self, entries: list[Any]) -> Iterator[tuple[list[Any], int]]:
        """Yield what becomes a chunk, and how many bytes it has."""
        sizes = [] if self._size_of is None else list(map(self._size_of, entries))
        step = self._chunk_entries
        if sum(sizes) > self._bytes_max // CHUNKS:
            step = max(1, min(step, len(entries) * self._bytes_max // CHUNKS // sum(sizes)))
        for at in range(0, len(entries), step):
            yield entries[at : at + step], sum(sizes[at : at + step])

    @property
    def first_number(self) -> int:
        """The oldest entry that is here."""
        return self._sealed[0].first_number if self._sealed else self._next_number

    @property
    def next_number(self) -> int:
        """The number of the next entry."""
        return self._next_number + len(self._entries)

    def chunks(self) -> list[NotedChunk]:
        """Return what there is now, oldest first."""
        return [*self._sealed, NotedChunk(self._next_number, self._face, self._entries[:])]
