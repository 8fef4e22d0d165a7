"""A bounded list of entries, oldest first. Adding an entry is cheap: `append` is the method of a Python list.

A few times a second the entries of that list are moved into chunks, and the oldest chunks are removed if there are too
many. Each chunk has the clock face that converts the times of its entries: when message time is set, a new chunk
begins. This module doesn't depend on the type of the entries. They should be structs that the garbage collector doesn't
track: otherwise keeping thousands of them would take more time than making them. They are numbered from 1 on, without
gaps.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from staticfire.protocol.clock_face import ClockFace

CHUNK_ENTRIES = 1_024
# The entries are divided into at least this many chunks, since they are removed chunk by chunk.
CHUNKS = 8


class NotedChunk(msgspec.Struct, gc=False):
    """Successive entries."""

    first_number: int
    face: ClockFace
    """Converts wall time to message time, for the time when the entries were noted."""
    entries: list[Any]
    held_bytes: int = 0
    contents: Any = None
    """What is in it, once `reading.contents_of` was called."""

    @property
    def next_number(self) -> int:
        """The number after the last entry."""
        return self.first_number + len(self.entries)


class RecordRing:
    """The newest entries, up to a limit."""

    def __init__(
        self,
        entries_max: int,
        face: ClockFace,
        evicted: Callable[[NotedChunk], None],
        bytes_max: int = 0,
        size_of: Callable[[Any], int] | None = None,
    ) -> None:
        """`evicted` receives each chunk that is removed. `bytes_max`: the limit for the total size of the entries."""
        self._entries_max = entries_max
        self._face = face
        self._evicted = evicted
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._chunk_entries = max(1, min(CHUNK_ENTRIES, entries_max // CHUNKS))
        self._sealed: deque[NotedChunk] = deque()
        # The number of entries in sealed chunks.
        self._count = 0
        self._held_bytes = 0
        # The number of the first entry that is in no chunk yet.
        self._next_number = 1
        self._entries: list[Any] = []
        self.append = self._entries.append
        """Adds an entry."""

    def tidy(self) -> None:
        """Move the entries into chunks, and remove the chunks that exceed the limit. logs.py calls this regularly."""
        if len(self._entries) >= self._chunk_entries or self._size_of is not None:
            self._seal()

    def clock_set(self, face: ClockFace) -> None:
        """Use another clock face for all later entries."""
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
        """Yield the entries of each new chunk, and their size in bytes."""
        sizes = [] if self._size_of is None else list(map(self._size_of, entries))
        step = self._chunk_entries
        if sum(sizes) > self._bytes_max // CHUNKS:
            step = max(1, min(step, len(entries) * self._bytes_max // CHUNKS // sum(sizes)))
        for at in range(0, len(entries), step):
            yield entries[at : at + step], sum(sizes[at : at + step])

    @property
    def first_number(self) -> int:
        """The number of the oldest entry."""
        return self._sealed[0].first_number if self._sealed else self._next_number

    @property
    def next_number(self) -> int:
        """The number of the next entry."""
        return self._next_number + len(self._entries)

    def chunks(self) -> list[NotedChunk]:
        """Return the current chunks, oldest first."""
        return [*self._sealed, NotedChunk(self._next_number, self._face, self._entries[:])]
