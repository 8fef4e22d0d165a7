"""The burst: records that were appended but not yet written. The hottest code of the store.

The dispatcher runs all handlers of one socket read. Each handler appends its records to the burst in memory. Then
`commit` writes the burst to the log with one write, makes it visible and settles every append (settling.py). If the
write fails, every append of the burst fails, and its queue offsets and log positions are used again by the next burst.

There are two ways in. `put` packs a record. `put_packed` takes records that the compiled version, or another caller,
has packed for the `room` in the current segment. If a record doesn't fit into this segment, `put` begins the next one:
it fills the rest with a blank and closes the chunk, because a write to the log consists of one chunk per segment.

A record is refused if it is larger than a segment. The later form of a record that was accepted before, such as the
delivery of a delayed message, can't be refused, because the message would be lost. It gets a segment of its own size.
"""

from typing import Any

from staticfire.broker.store.commit_log import Chunk, CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord, NewRows
from staticfire.broker.store.outcomes import OnStored, Settlement
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.settling import Settling
from staticfire.protocol.compiled import Packed
from staticfire.protocol.errors import StorageError, os_words
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import too_long
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    pack_blank,
    pack_record,
    record_size,
)
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.protocol.times import MessageMs

# How much larger than its first form the later form of a record may be: another topic, times of a timer.
LATER_BYTES_MAX = 1024

_pack_entry = ENTRY.pack


class Appender:
    """Appends records to the end of one log, and commits them."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, settings: StoreSettings, settling: Settling, name: str
    ) -> None:
        self._log = log
        self._settling = settling
        self._dirty = queues.dirty
        self._settings = settings
        self._name = name
        self._record_bytes_max = min(settings.record_bytes_max, settings.segment_bytes_max - BLANK_BYTES_MIN)
        self._later_bytes_max = settings.record_bytes_max + LATER_BYTES_MAX
        self._is_open = False
        # The current refusals by cause. They are kept as text, as is `_failure`: an exception object would keep the
        # stack frames alive that it was raised in.
        self._refusals: dict[str, str] = {}
        self._failure = ""
        self.last_stored_ms = MessageMs(0)
        self.last_position = -1
        """The position of the log's last record; -1 if unknown."""
        self._position = self._chunk_position = self._segment_start = 0
        self._last_start = -1
        # The position where a record must end to fit into its segment.
        self._room_end = -1
        # The same, but -1 while appends are refused: the hot path needs only one comparison for both.
        self._records_end = -1
        self._chunks: list[Chunk] = []
        self._records: list[bytes] = []
        # The queues that get messages in this burst, each with its first new offset.
        self._queues: dict[Queue, int] = {}
        self._settlements: list[Settlement] = []
        # The same for the part of the burst that was written early.
        self._early_queues: dict[Queue, int] = {}

    def open(self, last_position: int, last_stored_ms: MessageMs) -> None:
        """Start appending at the end of the log."""
        self._is_open = True
        self.last_position = last_position
        self.last_stored_ms = last_stored_ms
        self._start()

    def close(self) -> None:
        """Accept no more appends."""
        self._is_open = False
        self._set_room_end(-1)

    def refuse(self, cause: str, reason: StorageError | None) -> None:
        """Make every append raise `reason`; with None, remove this cause.

        Records that are already in the burst are written.
        """
        if reason is None:
            self._refusals.pop(cause, None)
        else:
            self._refusals[cause] = str(reason)
        self._set_room_end(self._room_end)

    @property
    def refusal(self) -> StorageError | None:
        """The reason why appends are refused now; None when they are accepted."""
        return StorageError(next(iter(self._refusals.values()))) if self._refusals else None

    @property
    def failure(self) -> StorageError | None:
        """The reason why the most recent failed burst failed."""
        return StorageError(self._failure) if self._failure else None

    def _set_room_end(self, position: int) -> None:
        self._room_end = position
        self._records_end = -1 if self._refusals else position

    def _start(self) -> None:
        self._position = self._chunk_position = self._log.end_position
        self._segment_start, segment_end = self._log.room()
        self._set_room_end(segment_end - BLANK_BYTES_MIN)
        self._chunks, self._records = [], []
        self._queues, self._settlements = {}, []

    def put(self, new: NewRecord, stored_ms: MessageMs, on_stored: OnStored | None = None, context: Any = None) -> int:
        """Add a record to the burst and return its log position; its queue offset is `queue.next_offset` - 1 then.

        `stored_ms` must never decrease. `on_stored` is called by `commit`, or after the fsync with SYNC_FLUSH and
        `new.wait_flush`.

        Raises: StorageError (the record is too large, the queue was deleted, or the store is closed or refuses
        appends), ProtocolError (a field is out of range, the properties are too long for RocketMQ's clients).
        """
        queue = new.queue
        is_seen = enters_consume_queue(new.sys_flag)
        # RocketMQ stores offset 0 in a record that doesn't enter a consume queue.
        queue_offset = queue.next_offset if is_seen else 0
        packed = _pack(new, self._position, queue_offset, stored_ms)
        end = self._position + len(packed)
        if end > self._records_end or len(packed) > self._record_bytes_max or queue.deleted:
            self._make_room(new, len(packed))
            packed = _pack(new, self._position, queue_offset, stored_ms)
        position = self._position
        entry = _pack_entry(position, len(packed), new.tags_code)
        # At most a new segment was begun up to here. The rest can't fail.
        self._position = position + len(packed)
        self._last_start = position
        self.last_stored_ms = stored_ms
        self._records.append(packed)
        if is_seen:
            queue.next_offset = queue_offset + 1
            queue.tail += entry
            queue.new_bytes += len(packed)
            self._queues[queue] = queue.max_offset
        if on_stored is not None:
            self._settlements.append((on_stored, context, queue_offset, position, new.wait_flush))
        return position

    def when_written(self, on_written: OnStored, context: Any) -> None:
        """Call `on_written` for the latest append with an `on_stored`, but without waiting for the disk or slaves.

        For state that must change together with `Queue.max_offset`.
        """
        _, _, queue_offset, position, _ = self._settlements[-1]
        self._settlements.append((on_written, context, queue_offset, position, False))

    def put_all(self, new: NewRows, stored_ms: MessageMs, on_stored: OnStored, context: Any) -> list[int]:
        """Add several records of one queue to the burst, adjacent in the log, and return their log positions.

        `on_stored` is called once, for the first record, because a burst is written completely or not at all. Raises:
        as `put`; then none of them was added.
        """
        if not new.rows:
            return []
        positions: list[int] = []
        queue, born_host = new.queue, new.born_host
        largest = max(record_size(born_host, queue.packed_topic, row[1], row[2]) for row in new.rows)
        _check_size(largest, self._record_bytes_max)
        for flag, properties, body, tags_code in new.rows:
            record = NewRecord(queue, properties, tags_code, body, new.born_ms, born_host, new.sys_flag, flag)
            positions.append(self.put(record, stored_ms, None if positions else on_stored, context))
        return positions

    @property
    def room(self) -> tuple[int, int, int]:
        """The position of the next record, the position where records must end in this segment, the largest size."""
        return self._position, self._records_end, self._record_bytes_max

    def put_packed(self, packed: Packed, stored_ms: MessageMs, on_stored: OnStored | None, context: Any) -> None:
        """Add records that the caller packed for `room`. `on_stored` is called once as in `put_all`, unless None."""
        records, last_position, rows = packed
        if on_stored is not None:
            self._settlements.append((on_stored, context, rows[0][0].next_offset, self._position, True))
        self._records.append(records)
        self._position += len(records)
        self._last_start = last_position
        self.last_stored_ms = stored_ms
        queues = self._queues
        for queue, entries, record_bytes in rows:
            queue.next_offset += len(entries) // ENTRY_BYTES
            queue.tail += entries
            queue.new_bytes += record_bytes
            queues[queue] = queue.max_offset

    def _make_room(self, new: NewRecord, size: int) -> None:
        """Continue the burst in the next segment if a record of `size` bytes doesn't fit into this one."""
        queue = new.queue
        if not self._is_open:
            raise StorageError(f"the store in {self._name} is closed")
        if (refusal := self.refusal) is not None:
            raise refusal
        if queue.deleted:
            raise StorageError(f"the queues of {queue.topic} were deleted while a message was in flight; send it again")
        _check_size(size, self._later_bytes_max if new.prepared_position else self._record_bytes_max)
        if self._position + size <= self._records_end:
            return
        if self._position > self._segment_start:
            if self._position < self.segment_end:
                self._records.append(pack_blank(self._position, self.segment_end - self._position))
            self._begin_segment(self.segment_end)
        if self._position + size > self._records_end:
            self.end_segment_at(self._position + size + BLANK_BYTES_MIN)

    def begin_at(self, position: int) -> None:
        """Begin an empty log at a position: its segment begins there, too."""
        assert not self._records
        self._begin_segment(position)

    def end_segment_at(self, end_position: int) -> None:
        """Let the segment of the next record end elsewhere, as in a copied log. Raises: StorageError, OSError."""
        if self.segment_end != end_position:
            self._log.end_segment_at(self._position, end_position)
            self._set_room_end(end_position - BLANK_BYTES_MIN)

    @property
    def segment_end(self) -> int:
        """Where the segment of the next record ends."""
        return self._room_end + BLANK_BYTES_MIN

    def fill(self, blank_bytes: int) -> None:
        """End the segment with a blank, wherever that is: for a copy of a log with its own segments."""
        self._records.append(pack_blank(self._position, blank_bytes))
        self._begin_segment(self._position + blank_bytes)

    def _begin_segment(self, start: int) -> None:
        if self._records:
            self._chunks.append(Chunk(self._chunk_position, self._records, self.segment_end))
        self._records = []
        self._chunk_position = self._position = self._segment_start = start
        self._set_room_end(start + self._settings.segment_bytes_max - BLANK_BYTES_MIN)

    def commit(self) -> dict[Queue, int]:
        """Write the burst, make it visible and settle its appends.

        Return the queues that got messages, each with the first new offset. If the write fails, nothing is stored: all
        appends are settled as FAILED, `failure` has the reason, and the next burst may succeed. Never raises.
        """
        if not self._records and not self._chunks:
            return self._taken_early()
        records, settlements, end = self._records, self._settlements, self._position
        try:
            last = [Chunk(self._chunk_position, records, self._room_end + BLANK_BYTES_MIN)] if records else []
            self._log.write([*self._chunks, *last], end)
        except OSError as error:
            self._fail(error)
            return self._taken_early()
        self.last_position = self._last_start
        arrivals = self._queues
        for queue in arrivals:
            queue.max_offset = queue.next_offset
        self._dirty.update(arrivals)
        self._chunk_position = end
        self._chunks = []
        self._records = []
        self._queues = {}
        self._settlements = []
        self._settling.written(end, settlements)
        return {**arrivals, **self._taken_early()} if self._early_queues else arrivals

    def commit_early(self) -> None:
        """Write what the burst has so far. The next `commit` also returns the queues that got messages by this."""
        self._early_queues = self.commit()

    def _taken_early(self) -> dict[Queue, int]:
        early, self._early_queues = self._early_queues, {}
        return {queue: offset for queue, offset in early.items() if not queue.deleted}

    def _fail(self, error: OSError) -> None:
        settlements = self._settlements
        self._failure = f"the log of {self._name} can't be written: {os_words(error)}; nothing was stored"
        for queue in self._queues:
            queue.roll_back()
        self._log.cut_stale_tail()
        self._start()
        self._settling.failed(settlements)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise StorageError(f"a record of {size} bytes is too large: the limit is {limit}")


def _pack(new: NewRecord, position: int, queue_offset: int, stored_ms: MessageMs) -> bytes:
    queue = new.queue
    if len(new.properties) > PROPERTIES_BYTES_MAX:
        raise too_long(new.properties)
    return pack_record(
        position, queue.queue_id, queue_offset, stored_ms, new.born_ms, new.sys_flag, new.flag, new.reconsume_times,
        new.prepared_position, new.born_host, queue.packed_topic, new.properties, new.body,
    )  # fmt: skip
