"""Where a queue begins: its first offset whose record is still in the log, found by a few looks at its entries.

Positions go up from entry to entry, so that halving finds the first one that isn't below the log's start. What can't be
true is never passed over: an entry of zeros that isn't part of a known hole, or one beside it, which may be torn. The
queue begins there then, and whoever reads it finds out (proof.py).
"""

from typing import Protocol

from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES, LOST

LOOK_ENTRIES = 1024
_ZEROS = bytes(ENTRY_BYTES)
_HOLES = (_ZEROS, LOST)
_FAR_AWAY = 1 << 62


class Entries(Protocol):
    """A queue, as far as this has to know it."""

    first_file: int
    max_offset: int

    def entry_bytes(self, offset: int, count: int) -> bytes | bytearray: ...


def find_first(queue: Entries, known: int, lowest: int) -> int:
    """Return the first offset whose record lies at `lowest` or above; none below `known` does. Raises: OSError."""
    low, high = known, queue.max_offset
    probe = low
    while low < high:
        at, position = _next_certain(queue, probe, high)
        if position < lowest:
            low = at + 1
        else:
            high = probe
        probe = (low + high) // 2
    end = next_entry(queue, low, queue.max_offset)
    return end if end == low or queue.entry_bytes(end - 1, 1) == LOST else low


def next_entry(queue: Entries, offset: int, end: int) -> int:
    """Return the first offset that isn't a hole; `end` when all are. Raises: OSError."""
    while offset < end and (entries := queue.entry_bytes(offset, min(end - offset, LOOK_ENTRIES))):
        holes = _count_holes(entries)
        offset += holes
        if holes < len(entries) // ENTRY_BYTES:
            break
    return min(offset, end)


def _next_certain(queue: Entries, offset: int, end: int) -> tuple[int, int]:
    """Return an offset and where its record lies: the first of which the entry tells; far away if none does.

    A hole doesn't say whether what lies before it is gone; beside one that nobody knows of an entry may be torn.
    """
    while (offset := next_entry(queue, offset, end)) < end:
        entry, before, behind = (_entry(queue, at) for at in (offset, offset - 1, offset + 1))
        position, size, _ = ENTRY.unpack(entry) if entry else (_FAR_AWAY, 1, 0)
        if size > 0 and position >= 0 and _ZEROS not in (before, behind):
            return offset, position
        offset += 1
    return end, _FAR_AWAY


def _entry(queue: Entries, offset: int) -> bytes | bytearray:
    return queue.entry_bytes(offset, 1) if queue.first_file <= offset < queue.max_offset else b""


def _count_holes(entries: bytes | bytearray) -> int:
    """Return how many entries from the first on are holes."""
    at, end = 0, len(entries)
    while at < end and entries[at : at + ENTRY_BYTES] in _HOLES:
        at += ENTRY_BYTES
    return at // ENTRY_BYTES
