"""Walking over the commit log record by record, believing nothing.

Invariant: a position is passed only when `check_record` found a whole record (or a blank) that says it lies there. The
walk ends at the first thing that is neither; that is where the log ends, or where it is damaged (damage.py).

A blank fills a segment's end, or stands where a salvage has moved something aside. Nothing is read through a map here:
what lies on a bad sector, or is a hole on a full tmpfs, would be the end of the process.
"""

import errno
from collections.abc import Iterator
from typing import NamedTuple

from staticfire.broker.store.segments import Segment, Segments
from staticfire.protocol.record import Found, Verdict, check_record, peek_record_bytes
from staticfire.runtime.machine import File

WINDOW_BYTES = 1024 * 1024
# What is read of a segment at once.
SECTOR_BYTES = 4096
UNREADABLE = b"\xff"
# Stands for each byte that the disk can't give back: no record has a CRC that fits.

_NOTHING = Verdict(Found.NOTHING, 0, "the last segment ends here")


class ScannedRecord(NamedTuple):
    """A whole record: it begins at `at` of `window`."""

    log_position: int
    record_bytes: int
    window: bytes
    at: int


class LogScan:
    """The records from a position on. Afterwards `position` is where they end and `verdict` says why there."""

    def __init__(self, segments: Segments, position: int, may_end_segment: bool = False) -> None:
        """`may_end_segment`: nobody appends now, so that the last segment's end may be found by its last blank."""
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
                    return  # it is no better when there is all of it to see
                window, window_position = fresh, self.position

    def _is_passable(self, segment: Segment, file: File) -> bool:
        """Whether a blank ends within its segment. The last one ends with a blank that nothing follows."""
        end = self.position + self.verdict.size
        is_last = segment is self._segments.last and self._may_end_segment
        if is_last and (end >= segment.end or _is_all_zeros(file, end - segment.start, segment.end - segment.start)):
            segment.end = end  # it was written when segments had another size
        return end <= segment.end


def _is_all_zeros(file: File, at: int, end: int) -> bool:
    while at < end:
        window = read_readable(file, at, min(WINDOW_BYTES, end - at))
        if window.rstrip(b"\0"):
            return False
        if not window:
            return True
        at += len(window)
    return True


def read_readable(file: File, at: int, size: int) -> bytes:
    """Return what can be read, with filler in place of bad sectors. Raises: OSError (it isn't about a sector)."""
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
