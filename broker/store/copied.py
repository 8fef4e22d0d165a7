"""Append pieces of another broker's log, byte by byte at the same positions, and enter their records into the queues.

A piece may end in the middle of a record; the rest is requested again. Nothing is appended that isn't a whole record
with the right checksum at its own position. Invariant: the log is a prefix of the log that it is copied from.
"""

from collections.abc import Callable
from struct import error as StructError

from staticfire.broker.store.appender import Appender
from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import HOLES_MAX, Queue
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.protocol.checksums import crc32
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    Found,
    check_record,
    pack_blank,
    peek_record,
    peek_record_bytes,
    peek_topic_and_properties,
    proven_offset,
)
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.protocol.times import MessageMs

# The third byte of a blank: it is an array of this many elements.
BLANK_ELEMENTS = 4
# The entries of these topics have another tags code than that of the record's properties: when it is due.
OF_OTHER_CODES = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)


def end_of_whole_records(position: int, data: bytes) -> int:
    """Return where the last whole record of a piece ends, or the blank after it."""
    at = 0
    while len(data) - at >= BLANK_BYTES_MIN:
        size = peek_record_bytes(data, at)
        if at + size > len(data):
            return position + at + (size if data[at + 2] == BLANK_ELEMENTS else 0)
        if size < BLANK_BYTES_MIN:
            break
        at += size
    return position + at


class QueueDiffers(StorageError):
    """A queue doesn't fit the log that is copied: an earlier end of the log has left something in it."""


class _NewEntries:
    """What a piece adds to one queue."""

    def __init__(self) -> None:
        self.entries = bytearray()
        self.record_bytes = 0

    @property
    def count(self) -> int:
        return len(self.entries) // ENTRY_BYTES


class _CheckedPiece:
    """What a piece of the log adds to the queues. Nothing is added before the whole piece has been checked."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.news: dict[Queue, _NewEntries] = {}
        self.last, self.stored_ms = -1, 0
        """The position of the last record, and the newest store time."""

    def next_offset(self, queue: Queue) -> int:
        """Return the offset of the next record of a queue."""
        new = self.news.get(queue)
        return queue.next_offset + (0 if new is None else new.count)

    def add(self, queue: Queue, entries: bytes, record_bytes: int) -> None:
        new = self.news.get(queue)
        if new is None:
            new = self.news[queue] = _NewEntries()
        new.entries += entries
        new.record_bytes += record_bytes


class CopiedLog:
    """The end of a log that is a copy."""

    def __init__(
        self,
        burst: Appender,
        log: CommitLog,
        queue_of: Callable[[str, int], Queue],
        deleted_below: Callable[[str], int],
        tags_code_of: TagsCodeOf,
    ) -> None:
        self._burst = burst
        self._log = log
        self._queue_of = queue_of
        self._deleted_below = deleted_below
        self._tags_code_of = tags_code_of

    def begin_at(self, position: int) -> None:
        """Begin an empty log at a position other than 0: the log that it is copied from lost its first segments."""
        if self._log.segments.all:
            raise StorageError(f"the log isn't empty, so it can't begin at {position}")
        self._log.end_position = self._log.synced_position = position
        self._burst.begin_at(position)

    def add(self, position: int, data: bytes, segment_end: int | None = None) -> int:
        """Add the whole records of a piece to the burst; return where the next piece begins.

        `segment_end`: where the segment of the piece ends in the copied log; None: it has the usual size.

        Raises: StorageError (there is something else at this position), OSError.
        """
        if position != self._burst.room[0]:
            raise StorageError(f"a piece of the log begins at {position}, but this log ends at {self._burst.room[0]}")
        if segment_end is not None:
            self._burst.end_segment_at(segment_end)
        piece = _CheckedPiece(position)
        at = 0
        while len(data) - at >= BLANK_BYTES_MIN:
            at = self._take_run(data, at, piece)
            if len(data) - at < BLANK_BYTES_MIN:
                break
            size = peek_record_bytes(data, at)
            if data[at + 2] == BLANK_ELEMENTS:
                self._put(data[:at], piece)
                return self._blank(position + at, size, data[at : at + BLANK_BYTES_MIN])
            if at + size > len(data) or not self._enter(data, at, position + at, piece):
                break
            piece.last, piece.stored_ms = position + at, max(piece.stored_ms, peek_record(data, at).stored_ms)
            at += size
        self._put(data[:at], piece)
        return position + at

    def _put(self, records: bytes, piece: _CheckedPiece) -> None:
        if records:
            end = piece.position + len(records)
            if end > self._burst.segment_end:
                raise StorageError(
                    f"the copied log has records up to {end}, which passes the end of its segment here, "
                    f"{self._burst.segment_end}: set mappedFileSizeCommitLog as when they were stored"
                )
            stored_ms = max(piece.stored_ms, self._burst.last_stored_ms)
            packed = [(queue, bytes(new.entries), new.record_bytes) for queue, new in piece.news.items()]
            self._burst.put_packed((records, piece.last, packed), MessageMs(stored_ms), None, None)

    def _blank(self, position: int, size: int, head: bytes) -> int:
        if head != pack_blank(position, size):
            raise StorageError(f"there is no record at position {position} of the copied log: it is damaged")
        self._burst.fill(size)
        return position + size

    def _take_run(self, data: bytes, at: int, piece: _CheckedPiece) -> int:
        """Enter the plain records that begin at `at`, if there is the compiled twin; return where they end."""
        if twin is None:
            return at

        def place(topic: str, queue_id: int) -> tuple[Queue, bytes, int] | None:
            if topic in OF_OTHER_CODES or self._deleted_below(topic) > piece.position:
                return None
            queue = self._queue_of(topic, queue_id)
            return queue, queue.packed_topic, piece.next_offset(queue)

        taken = twin.take_copied(data, at, piece.position + at, place, crc32)
        if taken is None:
            return at
        at, piece.last, stored_ms, rows = taken
        piece.stored_ms = max(piece.stored_ms, stored_ms)
        for queue, entries, record_bytes in rows:
            piece.add(queue, entries, record_bytes)
        return at

    def _enter(self, data: bytes, at: int, position: int, piece: _CheckedPiece) -> bool:
        """Enter a record into its queue; return False if that must wait until the records before it are visible.

        Hot path without the compiled twin: a slave does this for every record.
        """
        try:
            size, _, queue_id, queue_offset, stored_ms, _, sys_flag = peek_record(data, at)
            topic, properties = peek_topic_and_properties(data, at)
        except (StructError, IndexError, ValueError):  # The lengths in it, or the topic, are damaged.
            self._check(data, at, position)
            raise
        if not enters_consume_queue(sys_flag):
            self._check(data, at, position)
            return True
        if position < self._deleted_below(topic):
            self._check(data, at, position)
            return True
        queue = self._queue_of(topic, queue_id)
        record = memoryview(data)[at : at + size]
        if proven_offset(record, position, size, queue_id, queue.packed_topic) != queue_offset:
            self._check(data, at, position)
            raise StorageError(f"the record at position {position} of the copied log is damaged")
        if piece.next_offset(queue) != queue_offset:
            if queue in piece.news:
                return False
            self._jump(queue, queue_offset, position)
        tags_code = self._tags_code_of(topic, properties, stored_ms, position)
        piece.add(queue, ENTRY.pack(position, size, tags_code), size)
        return True

    def _check(self, data: bytes, at: int, position: int) -> None:
        """Raise StorageError unless there is a whole record."""
        verdict = check_record(data, at, position)
        if verdict.found is not Found.RECORD:
            raise StorageError(f"there is no record at position {position} of the copied log: {verdict.reason}")

    def _jump(self, queue: Queue, queue_offset: int, position: int) -> None:
        """Let a queue continue at another offset: the copied log has lost messages, or doesn't have the first ones."""
        missing = queue_offset - queue.next_offset
        if queue.next_offset == queue.max_offset and queue.is_empty and missing > 0:
            queue.begin_at(queue_offset)
        elif queue.next_offset == queue.max_offset and 0 < missing <= HOLES_MAX:
            queue.go_on_at(queue_offset)
        else:
            raise QueueDiffers(
                f"queue {queue.queue_id} of {queue.topic} ends at offset {queue.next_offset}, but the record at "
                f"{position} of the copied log has offset {queue_offset}"
            )
