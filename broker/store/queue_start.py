"""Find where a queue begins: the first offset whose record is still in the log, with few reads of its entries.

Log positions increase from entry to entry, so a binary search finds the first one that isn't below the log's start. A
hole is a run of entries of zeros or LOST. Implausible entries are never skipped: zeros that aren't part of a known hole
(one that ends with LOST), or an entry next to them, which may be torn. The queue begins there in that case, and the
next read detects the problem (proof.py).
"""

from typing import Protocol

from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES, LOST

LOOK_ENTRIES = 1024
_ZEROS = bytes(ENTRY_BYTES)
_HOLES = (_ZEROS, LOST)
_FAR_AWAY = 1 << 62


class Entries(Protocol):
    """The parts of a queue that this module needs."""

    first_file: int
    max_offset: int

    def entry_bytes(self, offset: int, count: int) -> bytes | bytearray: ...


def find_first(queue: Entries, known: int, lowest: int) -> int:
    """Return the first offset whose record is at `lowest` or above; no offset below `known` is. Raises: OSError."""
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
    """Return the first offset that isn't a hole; `end` if all are. Raises: OSError."""
    while offset < end and (entries := queue.entry_bytes(offset, min(end - offset, LOOK_ENTRIES))):
        holes = _count_holes(entries)
        offset += holes
        if holes < len(entries) // ENTRY_BYTES:
            break
    return min(offset, end)


def _next_certain(queue: Entries, offset: int, end: int) -> tuple[int, int]:
    """Return the first offset with a reliable entry, and its record's position; a very large one if there is none.

    A hole doesn't show whether the records before it are gone. An entry next to zeros may be torn.
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
    """Return the number of holes at the beginning of these entries."""
    at, end = 0, len(entries)
    while at < end and entries[at : at + ENTRY_BYTES] in _HOLES:
        at += ENTRY_BYTES
    return at // ENTRY_BYTES
