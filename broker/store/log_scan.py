"""Walking over the commit log record by record, believing nothing.

Invariant: a position is passed only when `check_record` found a whole record (or the blank that ends its segment)
that says it lies there. The walk ends at the first thing that is neither; that is where the log ends.
"""

from collections.abc import Iterator
from typing import NamedTuple

from staticfire.broker.store.segments import Segment, Segments
from staticfire.protocol.record import Found, Verdict, check_record, peek_record_bytes

WINDOW_BYTES = 1024 * 1024
# What is read of a segment at once.

_RECORD_HEAD = b"\xdc\x00\x11\xce"
_NOTHING = Verdict(Found.NOTHING, 0, "the last segment ends here")


class ScannedRecord(NamedTuple):
    """A whole record: it begins at `at` of `window`."""

    log_position: int
    record_bytes: int
    window: bytes
    at: int


class LogScan:
    """The records from a position on. Afterwards `position` is where they end and `verdict` says why there."""

    def __init__(self, segments: Segments, position: int) -> None:
        self._segments = segments
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
            elif self.verdict.found is Found.BLANK and self._fills(segment):
                self.position = segment.end
            else:
                wanted = max(WINDOW_BYTES, peek_record_bytes(window, at) if len(window) - at >= 8 else 0)
                wanted = min(wanted, segment.end - self.position)
                fresh = file.read(self.position - segment.start, wanted)
                if at == 0 and len(fresh) <= len(window):
                    return  # it is no better when there is all of it to see
                window, window_position = fresh, self.position

    def _fills(self, segment: Segment) -> bool:
        end = self.position + self.verdict.size
        if segment is self._segments.last:
            segment.end = end  # it was written when segments had another size
        return end == segment.end


class Leftovers(NamedTuple):
    """What lies behind the end of the log."""

    whole_records: int
    dirty_bytes: int
    """From the end up to the last byte that is not zero."""


def leftovers_behind(segments: Segments, position: int) -> Leftovers:
    """Look for whole records and other bytes behind the end of the log, in its segment and in later ones."""
    whole_records = 0
    dirty_end = position
    for segment in segments.all:
        if segment.end <= position:
            continue
        at = max(0, position - segment.start)
        for found_at, window in _windows(segments, segment, at):
            used = len(window.rstrip(b"\0"))
            if used:
                dirty_end = segment.start + found_at + used
                whole_records += _count_records(segments, segment, found_at, window)
    return Leftovers(whole_records, dirty_end - position)


def _windows(segments: Segments, segment: Segment, at: int) -> Iterator[tuple[int, bytes]]:
    file = segments.file_of(segment)
    while window := file.read(at, WINDOW_BYTES):
        yield at, window
        at += len(window)


def _count_records(segments: Segments, segment: Segment, window_at: int, window: bytes) -> int:
    file = segments.file_of(segment)
    # A head that lies across two windows begins in the first.
    window += file.read(window_at + len(window), len(_RECORD_HEAD) - 1)
    count, at = 0, window.find(_RECORD_HEAD)
    while at >= 0:
        claimed = int.from_bytes(file.read(window_at + at + 4, 4), "big")
        data = file.read(window_at + at, min(claimed, segment.end - segment.start))
        whole = check_record(data, 0, segment.start + window_at + at).found is Found.RECORD
        count += whole
        at = window.find(_RECORD_HEAD, at + (claimed if whole else 1))
    return count
