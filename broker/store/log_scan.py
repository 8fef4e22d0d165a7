"""Read the commit log record by record, and trust nothing that was not checked.

Invariant: a position is passed only if `check_record` found a whole record or a blank there that contains this
position. The scan stops at anything else; the log ends there, or is damaged there (damage.py).

A blank fills the end of a segment, or replaces a part that a salvage has moved aside. The scan doesn't read through a
memory map: with a bad sector, or a hole in a file on a full tmpfs, a mapped read would kill the process.
"""

import errno
from collections.abc import Iterator
from typing import NamedTuple

from staticfire.broker.store.segments import Segment, Segments
from staticfire.protocol.record import Found, Verdict, check_record, peek_record_bytes
from staticfire.runtime.machine import File

# The number of bytes read from a segment at once.
WINDOW_BYTES = 1024 * 1024
SECTOR_BYTES = 4096
# Replaces each byte that the disk can't read: no record with such bytes has a matching CRC.
UNREADABLE = b"\xff"

_NOTHING = Verdict(Found.NOTHING, 0, "the last segment ends here")


class ScannedRecord(NamedTuple):
    """A whole record. It begins at index `at` of `window`."""

    log_position: int
    record_bytes: int
    window: bytes
    at: int


class LogScan:
    """The records from a position on. Afterwards `position` is where they end, and `verdict` contains the reason."""

    def __init__(self, segments: Segments, position: int, may_end_segment: bool = False) -> None:
        """`may_end_segment`: nothing is being appended, so the last segment's last blank may define its end."""
        self._segments = segments
        self._may_end_segment = may_end_segment
        self.position = position
        self.verdict = _NOTHING

    def __iter__(self) -> Iterator[ScannedRecord]:
        while (segment := self._segments.at(self.position)) is not None:
            yield from self._scan(segment)
            if self.position < segment.end:
                return
        self.verdict = _NOTHING

    def _scan(self, segment: Segment) -> Iterator[ScannedRecord]:
        file = self._segments.file_of(segment)
        window, window_position = b"", self.position
        while self.position < segment.end:
            at = self.position - window_position
            self.verdict = check_record(window, at, self.position)
            if self.verdict.found is Found.RECORD:
                yield ScannedRecord(self.position, self.verdict.size, window, at)
                self.position += self.verdict.size
            elif self.verdict.found is Found.BLANK and self._is_passable(segment, file):
                self.position += self.verdict.size
            else:
                wanted = max(WINDOW_BYTES, peek_record_bytes(window, at) if len(window) - at >= 8 else 0)
                wanted = min(wanted, segment.end - self.position)
                fresh = read_readable(file, self.position - segment.start, wanted)
                if at == 0 and len(fresh) <= len(window):
                    return  # A second look won't help: all available bytes were already checked.
                window, window_position = fresh, self.position

    def _is_passable(self, segment: Segment, file: File) -> bool:
        """Tell whether a blank ends within its segment. The last segment may end with a blank that nothing follows."""
        end = self.position + self.verdict.size
        is_last = segment is self._segments.last and self._may_end_segment
        if is_last and (end >= segment.end or _is_all_zeros(file, end - segment.start, segment.end - segment.start)):
            segment.end = end  # The segment was written with another segment size.
        return end <= segment.end


def _is_all_zeros(file: File, at: int, end: int) -> bool:
    while at < end:
        window = read_readable(file, at, min(WINDOW_BYTES, end - at))
        if not is_zeros(window):
            return False
        if not window:
            return True
        at += len(window)
    return True


def is_zeros(window: bytes) -> bool:
    """Tell whether all bytes are zero. Comparing is a hundred times faster than `rstrip`, which counts the zeros."""
    return window == bytes(len(window))


def read_readable(file: File, at: int, size: int) -> bytes:
    """Return the readable bytes, with filler in place of bad sectors. Raises: OSError (another cause than a sector)."""
    try:
        return file.read_unmapped(at, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    parts = []
    size = min(size, max(0, file.size() - at))
    end = at + size
    while at < end:
        count = min(SECTOR_BYTES - at % SECTOR_BYTES, end - at)
        try:
            parts.append(file.read_unmapped(at, count))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(UNREADABLE * count)
        at += count
    return b"".join(parts)
