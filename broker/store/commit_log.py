"""All records of a broker, one after another in the order of arrival. RocketMQ: CommitLog, MappedFileQueue.

Invariants: everything below `end_position` consists of whole records and blanks; after it there is nothing that could
be taken for a record (a failed write is cut off before the next one); everything below `synced_position` survives a
power loss.

There is only one sync at a time: the kernel reports an error to only one caller, so a second, concurrent sync would see
success. For the handling of a failed one see log_sync.py and docs/decisions/0015-failed-fsync.md.
"""

import errno
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from staticfire.broker.store.damage import next_whole
from staticfire.broker.store.log_scan import LogScan
from staticfire.broker.store.log_sync import LogSync, Span
from staticfire.broker.store.outcomes import OldSegment
from staticfire.broker.store.segments import Segment, Segments
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import Found, check_record, peek_record, peek_record_bytes
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import File, Files

# How much of the log is rewritten, in whole segments, if the last process was killed. The store refuses appends after
# two failed fsyncs in a row, so anything lost is near the end, even if there is no checkpoint that shows how much was
# synced.
REWRITE_BYTES_MAX = 256 * 1024 * 1024


# The number of attempts in a row: a single failure may be caused by a cable or a network disk. See
# docs/decisions/0027-unreadable.md.
READS_MAX = 3


class Chunk(NamedTuple):
    """Adjacent records to write into one segment."""

    position: int
    records: list[bytes]
    segment_end: int = 0
    """Where the segment ends, if it is a new one; 0: it has the usual size."""


class CommitLog:
    """The log's segments and its end."""

    def __init__(self, files: Files, folder: str, settings: StoreSettings) -> None:
        self._settings = settings
        self.segments = Segments(files, folder, settings.segment_bytes_max, settings.segments_open_max)
        self.end_position = 0
        self.synced_position = 0
        self._stale_tail = False
        self.has_failed_sync = False
        """Whether a sync failed since the last success, or may have failed before a kill.

        Unsafe data may be gone from the disk then; the next sync writes it again.
        """
        self._rewrite_above = 0
        self._under_way: LogSync | None = None
        # Whether an error of the files being synced was reported to another caller.
        self._is_spoilt = False
        self._is_cut_meanwhile = False
        self._at_hand: Segment | None = None

    @property
    def min_position(self) -> int:
        """The position of the oldest record."""
        return self.segments.min_position

    def start_at(self, end_position: int, synced_position: int, was_closed: bool = True) -> None:
        """Continue after the last whole record, which recovery has found.

        Unless the last process closed the log, one of its fsyncs may have failed. Then reads return what is in memory,
        and the next fsync would succeed without writing it.
        """
        self.has_failed_sync = not was_closed
        self._rewrite_above = end_position - REWRITE_BYTES_MAX
        self.end_position = end_position
        self.synced_position = min(synced_position, end_position)
        self.segments.pinned_position = self.synced_position

    def room(self) -> tuple[int, int]:
        """Return start and end of the segment for the next record, perhaps a new segment."""
        start, segment = self.end_position, self.segments.at(self.end_position)
        return (start, start + self._settings.segment_bytes_max) if segment is None else (segment.start, segment.end)

    def end_segment_at(self, position: int, end: int) -> None:
        """Let the segment of the next record, if it exists, end elsewhere. Raises: StorageError, OSError."""
        if self.is_syncing and self.segments.at(position) is not None:  # A worker may use the file.
            raise StorageError(f"the segment at {position} is being written to the disk: its size is changed later")
        self.segments.end_at(position, end)

    # --- writing

    def write(self, chunks: list[Chunk], end_position: int) -> None:
        """Write a burst that ends at `end_position`, completely or not at all. Raises: OSError."""
        if self._stale_tail:
            self._cut_stale_tail()
        try:
            for position, records, segment_end in chunks:
                segment = self._segment_at_hand(position)
                if segment is None:
                    segment = self._at_hand = self.segments.create(position, segment_end)
                file = segment.file or self.segments.file_of(segment)
                file.write(position - segment.start, b"".join(records))
        except OSError:
            self._stale_tail = True
            self._at_hand = None
            raise
        self.end_position = end_position

    def cut_stale_tail(self) -> None:
        """Remove the rest of a failed write. Nothing is written until that succeeds."""
        if self._stale_tail:
            try:
                self._cut_stale_tail()
            except OSError:
                pass  # The next write tries it again, and fails with the reason.

    def _cut_stale_tail(self) -> None:
        self._at_hand = None
        self._is_cut_meanwhile = True
        try:
            self.segments.cut(self.end_position)
        except OSError:
            self.has_failed_sync = self._is_spoilt = True
            raise
        self._stale_tail = False

    @property
    def is_syncing(self) -> bool:
        """Whether a sync is running. No second one may start until it has ended."""
        return self._under_way is not None

    def start_sync(self) -> LogSync | None:
        """Return the fsync that makes everything written so far safe; None if it already is. One at a time.

        Carry it out in a worker, then call `synced` or `sync_failed`.
        """
        assert self._under_way is None, "a second sync could succeed although the first fails"
        if self.synced_position >= self.end_position:
            return None
        spans = []
        for segment in self.segments.all:
            if segment.end > self.synced_position and segment.start < self.end_position:
                start = max(self.synced_position, segment.start) - segment.start
                stop = min(self.end_position, segment.end) - segment.start
                is_rewritten = self.has_failed_sync and segment.end > self._rewrite_above
                file = self.segments.file_of(segment)
                spans.append(Span(file, segment.path, segment.start, start, stop, is_rewritten))
        self._is_spoilt = self._is_cut_meanwhile = False
        self._under_way = LogSync(self.end_position, spans, self.segments.sync_names)
        return self._under_way

    def synced(self, sync: LogSync) -> None:
        """Note that a sync has succeeded. Raises: OSError (an error was reported to another caller meanwhile)."""
        if self._is_spoilt:
            self.sync_failed()
            raise OSError(errno.EIO, "another sync of the same file failed meanwhile")
        self._under_way = None
        self.has_failed_sync = False
        self.synced_position = max(self.synced_position, sync.target_position)
        self.segments.pinned_position = self.synced_position

    def sync_failed(self) -> None:
        """Note that a sync has failed. The next one writes its data again."""
        self._under_way = None
        self.has_failed_sync = True
        if self._is_cut_meanwhile:
            self._stale_tail = True  # The cut may be lost, too.

    def is_in_doubt(self, position: int) -> bool:
        """Tell whether the disk may have lost a position: it isn't safe, and a sync has failed or is running."""
        return position >= self.synced_position and (self.has_failed_sync or self._under_way is not None)

    def sync(self) -> None:
        """Make everything written so far safe at once. Blocks. Raises: OSError, UnsyncedLost."""
        sync = self.start_sync()
        if sync is not None:
            try:
                sync.carry_out()
            except BaseException:
                self.sync_failed()
                raise
            self.synced(sync)

    # --- reading

    def read(self, position: int, size: int) -> bytes:
        """Return the bytes of adjacent records. Raises: StorageError."""
        segment = self._segment_at_hand(position)
        if segment is None:
            raise StorageError(f"the commit log has no segment for position {position}: a file of it was removed")
        data = (segment.file or self.segments.file_of(segment)).read(position - segment.start, size)
        if len(data) == size:
            return data
        if position + size > segment.end > position:
            room = segment.end - position
            return data[:room] + self.read(segment.end, size - room)
        raise StorageError(f"{segment.path} ends {size - len(data)} bytes too early: another program has cut it")

    def read_unmapped(self, position: int, size: int) -> bytes:
        """Do `read` at a position that isn't trusted; a bad sector raises OSError. Raises: StorageError, OSError."""
        segment = self._segment_at_hand(position)
        if segment is None or size < 0 or position + size > self.end_position:
            raise StorageError(f"the commit log has no {size} bytes at position {position}")
        file = segment.file or self.segments.file_of(segment)
        data = _read_again(file, position - segment.start, min(size, segment.end - position))
        if len(data) < size and position + size > segment.end:
            return data + self.read_unmapped(segment.end, size - len(data))
        if len(data) < size:
            raise StorageError(f"{segment.path} ends {size - len(data)} bytes too early: another program has cut it")
        return data

    def read_each(self, positions: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """Return the records at these places, in log order. Raises: StorageError, OSError.

        The records of a pull are nearly always in one segment, so that one lookup of the segment is enough.
        """
        segment = self._segment_at_hand(positions[0])
        if segment is not None and positions[-1] + sizes[-1] <= segment.end:
            start, read = segment.start, (segment.file or self.segments.file_of(segment)).read
            records = [read(position - start, size) for position, size in zip(positions, sizes, strict=True)]
            if sum(map(len, records)) == sum(sizes):
                return records
        return list(map(self.read, positions, sizes))

    def _segment_at_hand(self, position: int) -> Segment | None:
        segment = self._at_hand
        if segment is None or not segment.start <= position < segment.end:
            segment = self._at_hand = self.segments.at(position)
        return segment

    def record_at(self, position: int) -> bytes | None:
        """Return the whole record that begins at `position`; None if there is none. Raises: OSError."""
        if not self.min_position <= position < self.end_position:
            return None
        segment = self.segments.at(position)
        if segment is None:
            return None
        file = self.segments.file_of(segment)
        head = _read_again(file, position - segment.start, 8)
        room = min(segment.end, self.end_position) - position
        if len(head) < 8 or peek_record_bytes(head) > room:
            return None
        record = _read_again(file, position - segment.start, peek_record_bytes(head))
        return record if check_record(record, 0, position).found is Found.RECORD else None

    def records_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Iterate over (position, record) of the whole records, from the beginning of one of them on."""
        at: int | None = max(position, self.min_position)
        while at is not None and at < self.end_position:
            scan = LogScan(self.segments, at)
            for log_position, record_bytes, window, start in scan:
                if log_position >= self.end_position:
                    return
                yield log_position, window[start : start + record_bytes]
            at = next_whole(self.segments, scan.position + 1, self.end_position)

    def first_stored_ms(self, position: int) -> MessageMs | None:
        """Return the stored time of the first whole record from a position on; None if there is none."""
        for _, record in self.records_from(position):
            return MessageMs(peek_record(record).stored_ms)
        return None

    def oldest_segment(self) -> OldSegment | None:
        """Return the first segment; None if no record follows it. Raises: OSError, StorageError."""
        segments = self.segments.all
        if len(segments) < 2 or segments[0].end >= self.end_position:
            return None
        end = segments[0].end
        newest_ms = self.first_stored_ms(end)
        return None if newest_ms is None else OldSegment(end, newest_ms)

    def start_without(self, position: int) -> int:
        """Return where the log would begin after `remove_before`."""
        return self.segments.start_without(min(position, self.synced_position)) if self.segments.all else 0

    def remove_before(self, position: int) -> int:
        """Remove the segments that end at or below `position` and return their number. Raises: OSError."""
        self._at_hand = None
        return self.segments.remove_before(min(position, self.synced_position))

    def sync_names(self) -> None:
        """Sync the names, so that removed segments don't reappear after a power loss. Raises: OSError."""
        if self.segments.all:
            self.segments.sync_names()

    def close(self) -> None:
        """Close the files."""
        self._at_hand = None
        self.segments.close()


def _read_again(file: File, at: int, size: int) -> bytes:
    """Read from a file; a sector counts as bad only after several failed attempts in a row. Raises: OSError."""
    for _ in range(READS_MAX - 1):
        try:
            return file.read_unmapped(at, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    return file.read_unmapped(at, size)
