"""Examine the log after the place where its records end, and move damaged parts aside.

    whole records | damage 1 | whole records | damage 2 | ... | whole records | leftovers, or zeros

Records after a damage are recognized by their own content: a record contains its position, and its CRCs match. So bytes
of a body that happen to look like a record's header are never accepted, and neither is a stale or an exchanged file.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from staticfire.broker.store.log_scan import WINDOW_BYTES, LogScan, is_zeros, read_readable
from staticfire.broker.store.segments import Segment, Segments
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    Found,
    check_record,
    pack_blank,
    peek_record,
    peek_record_bytes,
    peek_topic_and_properties,
)
from staticfire.runtime.machine import Files

QUEUES_SHOWN_MAX = 8
# The smallest unit that a disk writes as a whole.
POWER_SECTOR_BYTES = 512
# More consecutive zeros than the header of a record can contain.
TORN_BYTES_MIN = 32

_HEADS = re.compile(b"\xdc\x00[\x11\x04]\xce")
_POSITION_AT = 19
_HEAD_BYTES = BLANK_BYTES_MIN


class LogDamaged(StorageError):
    """Whole records follow a damaged place of the log: an operator must decide what to do with them."""


class Damage(NamedTuple):
    """A place of the log that contains no whole record."""

    position: int
    end_position: int
    """Where the next whole record begins, or the end of the last byte that isn't zero."""
    path: str
    file_position: int
    reason: str


class Survey(NamedTuple):
    """What follows the first place that can't be read as a record."""

    damages: list[Damage]
    """The damaged places that are followed by whole records."""
    tail: Damage | None
    """Nonzero bytes after the last whole record."""
    whole_records: int
    """The number of whole records after the first damage."""
    queues: dict[tuple[str, int], int]
    """The same number by topic and queue."""
    misplaced: list[tuple[str, int]]
    """Files that begin with a whole record of another log position, with that position."""
    dirty_end: int = 0
    """The end of the last byte of the log that isn't zero."""

    def report(self, folder: str) -> str:
        """Return a description for people, with the possible fixes."""
        places = [
            f"{path} at byte {at} (position {start} of the log, {end - start} bytes: {reason})"
            for start, end, path, at, reason in [*self.damages, *([self.tail] if self.tail else [])]
        ]
        exchanged = [
            f"{path} contains records of {claimed}: it may have been renamed or copied"
            for path, claimed in self.misplaced
        ]
        shown = [f"{count} of queue {queue_id} of {topic}" for (topic, queue_id), count in self.queues.items()]
        if len(shown) > QUEUES_SHOWN_MAX:
            shown[QUEUES_SHOWN_MAX:] = [f"and {len(shown) - QUEUES_SHOWN_MAX} more queues"]
        return (
            f"the log in {folder} is damaged: {'; '.join(places + exchanged)}. Whole messages that follow: "
            f"{self.whole_records} ({', '.join(shown) or 'none'}). Nothing was changed. Put the file back from a copy; "
            f"or start once with `staticfire broker --salvage` (setting salvage=true): it moves the damaged parts to "
            f"{folder}/damaged and continues with all undamaged messages"
        )


def survey_behind(segments: Segments, position: int, reason: str) -> Survey:
    """Examine everything after the end of the whole records. Raises: OSError."""
    damages: list[Damage] = []
    queues: dict[tuple[str, int], int] = {}
    whole_records = 0
    tail = None
    first, end = position, _dirty_end(segments, position)
    while position < end:
        whole_at = next_whole(segments, position)
        if whole_at is None:
            tail = _damage(segments, position, end, reason)
            break
        if whole_at > position:
            damages.append(_damage(segments, position, whole_at, reason))
        scan = LogScan(segments, whole_at)
        for _, _, window, at in scan:
            whole_records += 1
            key = peek_topic_and_properties(window, at)[0], peek_record(window, at).queue_id
            queues[key] = queues.get(key, 0) + 1
        position, reason = scan.position, scan.verdict.reason
    return Survey(damages, tail, whole_records, queues, _misplaced(segments, first), end)


def _damage(segments: Segments, position: int, end_position: int, reason: str) -> Damage:
    segment = segments.at(position) or segments.last
    return Damage(position, end_position, segment.path, position - segment.start, reason)


def next_whole(segments: Segments, position: int, end_position: int | None = None) -> int | None:
    """Return the position of the first whole record or blank at or after a position. Raises: OSError."""
    for segment, at, window in _windows(segments, position, _HEAD_BYTES - 1, skips_holes=True):
        if end_position is not None and segment.start + at >= end_position:
            return None
        for match in _HEADS.finditer(window):
            found_at = segment.start + at + match.start()
            claimed = window[match.start() + _POSITION_AT : match.start() + _HEAD_BYTES]
            if claimed == found_at.to_bytes(8, "big") and _is_whole(segments, segment, found_at, found_at):
                return found_at
    return None


def _is_whole(segments: Segments, segment: Segment, position: int, claimed: int) -> bool:
    file = segments.file_of(segment)
    at = position - segment.start
    head = read_readable(file, at, _HEAD_BYTES)
    size = min(peek_record_bytes(head), segment.end - position)
    data = head if head[2] == 4 else read_readable(file, at, size)
    verdict = check_record(data, 0, claimed)
    # A blank's length isn't covered by a CRC.
    return verdict.found is Found.RECORD or (verdict.found is Found.BLANK and position + verdict.size <= segment.end)


def _misplaced(segments: Segments, position: int) -> list[tuple[str, int]]:
    """Find exchanged files: their records are whole, but belong to another position."""
    found = []
    for segment in segments.all:
        head = read_readable(segments.file_of(segment), 0, _HEAD_BYTES) if segment.end > position else b""
        if len(head) == _HEAD_BYTES and _HEADS.match(head):
            claimed = int.from_bytes(head[_POSITION_AT:], "big", signed=True)
            if claimed != segment.start and _is_whole(segments, segment, segment.start, claimed):
                found.append((segment.path, claimed))
    return found


def _dirty_end(segments: Segments, position: int) -> int:
    """Return the end of the last nonzero byte from a position on; the position itself if there is none."""
    dirty_end = position
    for segment, at, window in _windows(segments, position, skips_holes=True):
        if not is_zeros(window):  # Almost every window of a segment that isn't full is.
            dirty_end = segment.start + at + len(window.rstrip(b"\0"))
    return dirty_end


def _windows(
    segments: Segments, position: int, overlap_bytes: int = 0, skips_holes: bool = False
) -> Iterator[tuple[Segment, int, bytes]]:
    """Read everything from a position on: segment, index in it, bytes. The overlap keeps items at a border whole.

    `skips_holes`: the zeros after the last data of a segment aren't read. A segment is 1 GiB, and most of it is a hole.
    """
    for segment in segments.all:
        if segment.end <= position:
            continue
        file = segments.file_of(segment)
        at, end = max(0, position - segment.start), segment.end - segment.start
        if skips_holes:
            end = min(end, file.data_end())
        while at < end and (window := read_readable(file, at, min(WINDOW_BYTES + overlap_bytes, end - at))):
            yield segment, at, window
            at += min(WINDOW_BYTES, len(window))


def looks_torn(segments: Segments, damage: Damage) -> bool:
    """Tell whether a damaged place reaches the end of a sector and has zeros there. Raises: OSError.

    A power loss leaves this if a sector was not written yet, or only with a part of its data, because the log is
    written once from start to end. A bit that flips later doesn't change the other bytes, and neither does a bad
    sector. Only a body of zeros looks the same.
    """
    at = damage.position
    while at < damage.end_position:
        segment = segments.at(at)
        assert segment is not None
        start = at - segment.start
        size = POWER_SECTOR_BYTES - start % POWER_SECTOR_BYTES
        if at + size > damage.end_position:
            return False  # A whole record begins in this sector, so the sector was written.
        if not any(read_readable(segments.file_of(segment), start, size)[-TORN_BYTES_MIN:]):
            return True
        at += size
    return False


# --- moving aside


def move_aside(files: Files, segments: Segments, folder: str, damage: Damage) -> str:
    """Copy a damaged part to a new file and return its path. Older copies are kept. Raises: OSError."""
    files.make_folder(folder)
    path, number = f"{folder}/{damage.position:020d}", 1
    while files.exists(path):
        number += 1
        path = f"{folder}/{damage.position:020d}-{number}"
    copy = files.open(path)
    try:
        for segment, at, window in _windows(segments, damage.position):
            position = segment.start + at
            if position >= damage.end_position:
                break
            copy.write(position - damage.position, window[: damage.end_position - position])
        copy.sync()
    finally:
        copy.close()
    files.sync_folder(folder)
    files.sync_folder(posixpath.dirname(folder))
    return path


def blank_out(segments: Segments, damage: Damage) -> None:
    """Overwrite a damaged part with blanks, so that the log continues after it. Raises: OSError, StorageError.

    Blanks have zeros after their header: slaves write them so, and their logs must be equal.
    """
    position = damage.position
    while position < damage.end_position:
        segment = segments.at(position)
        assert segment is not None
        size = min(damage.end_position, segment.end) - position
        if size < BLANK_BYTES_MIN:
            raise StorageError(f"{size} damaged bytes at position {position} of the log are too few to be salvaged")
        file = segments.file_of(segment)
        blank = pack_blank(position, size)
        file.write(position - segment.start, blank)
        for at in range(len(blank), size, WINDOW_BYTES):
            file.write(position - segment.start + at, bytes(min(WINDOW_BYTES, size - at)))
        file.sync()
        position += size
