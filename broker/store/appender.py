"""The burst: records that were appended and are not written yet. The hottest code of the store.

The dispatcher runs all handlers of one socket read, each appends, then `commit` writes everything with one write, makes
it visible and settles every append (settling.py), or none of it. Invariant: a burst that fails has handed out nothing:
the next one gets the same offsets and positions.
"""

from itertools import accumulate
from operator import itemgetter
from typing import Any

from staticfire.broker.store.commit_log import Chunk, CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord, NewRows
from staticfire.broker.store.outcomes import OnStored, PutOutcome, Settlement, settle
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.settling import Settling
from staticfire.protocol.checksums import crc32
from staticfire.protocol.compiled import Packed, twin
from staticfire.protocol.errors import StorageError
from staticfire.protocol.plain_records import pack_plain_row
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    IPV4_HOST_BYTES,
    pack_blank,
    pack_record,
    record_size,
)
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.protocol.times import MessageMs

_flag_of, _tags_code_of = itemgetter(0), itemgetter(3)
_pack_entry = ENTRY.pack


class Appender:  # house: a burst is gathered, written and taken back in one place, or a failure in between tears it
    """Appends and commits at the end of one log."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, settings: StoreSettings, settling: Settling, name: str
    ) -> None:
        self._log = log
        self._settling = settling
        self._dirty = queues.dirty
        self._settings = settings
        self._name = name
        self._record_bytes_max = min(settings.record_bytes_max, settings.segment_bytes_max - BLANK_BYTES_MIN)
        self._is_open = False
        self._refusals: dict[str, str] = {}
        # By cause, as the failure below: words, since an exception holds what was on the stack when it was raised.
        self._failure = ""
        self.last_stored_ms = MessageMs(0)
        self.last_position = -1
        """Where the last record of the log begins, if known."""
        self._position = self._chunk_position = 0
        self._last_start = -1
        self._room_end = -1
        # Where a record has to end to have room in its segment.
        self._records_end = -1
        # The same, but -1 while appends are refused: so that the hot path needs one comparison for both.
        self._chunks: list[Chunk] = []
        self._records: list[bytes] = []
        self._queues: dict[Queue, int] = {}
        # Those that get messages, and from which offset on.
        self._settlements: list[Settlement] = []

    def open(self, last_position: int, last_stored_ms: MessageMs) -> None:
        """Begin at the end of the log."""
        self._is_open = True
        self.last_position = last_position
        self.last_stored_ms = last_stored_ms
        self._start()

    def close(self) -> None:
        """Take no more appends."""
        self._is_open = False
        self._set_room_end(-1)

    def refuse(self, cause: str, reason: StorageError | None) -> None:
        """Refuse every append with that; None: not for this cause any more. What is on the burst is written."""
        if reason is None:
            self._refusals.pop(cause, None)
        else:
            self._refusals[cause] = str(reason)
        self._set_room_end(self._room_end)

    @property
    def refusal(self) -> StorageError | None:
        """Why no append is taken now."""
        return StorageError(next(iter(self._refusals.values()))) if self._refusals else None

    @property
    def failure(self) -> StorageError | None:
        """Why the last burst that failed did so."""
        return StorageError(self._failure) if self._failure else None

    def _set_room_end(self, position: int) -> None:
        self._room_end = position
        self._records_end = -1 if self._refusals else position

    def _start(self) -> None:
        self._position = self._chunk_position = self._log.end_position
        self._set_room_end(self._log.room_end() - BLANK_BYTES_MIN)
        self._chunks, self._records = [], []
        self._queues, self._settlements = {}, []

    def append(  # house: hot, and a value object would cost each send more than all its look-ups
        self,
        queue: Queue,
        born_ms: int,
        sys_flag: int,
        flag: int,
        reconsume_times: int,
        prepared_position: int,
        born_host: bytes,
        properties: bytes,
        body: bytes,
        tags_code: int,
        stored_ms: MessageMs,
        on_stored: OnStored | None = None,
        context: Any = None,
        wait_flush: bool = True,
    ) -> int:
        """Put a record on the burst and return its log position; its queue offset is `queue.next_offset` - 1 then.

        `tags_code` is any i64 that the queue's entry shall carry; `stored_ms` never goes down. `on_stored` is called
        by `commit`, or with SYNC_FLUSH and `wait_flush` after the fsync.

        Raises: StorageError (too large, a deleted queue, the store is closed or refuses), ProtocolError (a field is
        out of range).
        """
        position = self._position
        queue_offset = queue.next_offset
        size = queue.plain_bytes + len(properties) + len(body)
        end = position + size
        # fmt: off
        if (
            end > self._records_end or size > self._record_bytes_max or queue.deleted
            or sys_flag or flag or reconsume_times or prepared_position or len(born_host) != IPV4_HOST_BYTES
        ):
            record = NewRecord(
                queue, properties, tags_code, body, born_ms, born_host, sys_flag, flag, reconsume_times,
                prepared_position, wait_flush,
            )
            return self.put(record, stored_ms, on_stored, context)
        # fmt: on
        entry = _pack_entry(position, size, tags_code)
        pack_plain = queue.pack_plain or queue.plain_packer()
        self._records += pack_plain(position, queue_offset, stored_ms, born_ms, born_host, properties, body)
        # Nothing has changed so far; from here on nothing can fail.
        self._position = end
        self._last_start = position
        self.last_stored_ms = stored_ms
        queue.next_offset = queue_offset + 1
        queue.tail += entry
        queue.new_bytes += size
        self._queues[queue] = queue.max_offset
        if on_stored is not None:
            self._settlements.append((on_stored, context, queue_offset, position, wait_flush))
        return position

    def append_all(self, new: NewRows, stored_ms: MessageMs, on_stored: OnStored, context: Any) -> list[int]:
        """Put records of one queue on the burst, side by side, and return their log positions.

        `on_stored` is called once, for the first: a burst is written as a whole or not at all. Raises: as `append`.
        """
        queue, rows = new.queue, new.rows
        if not rows:
            return []
        first = self._position
        if new.sys_flag or queue.deleted or len(new.born_host) != IPV4_HOST_BYTES or any(map(_flag_of, rows)):
            return self._append_each(new, stored_ms, on_stored, context)
        pieces, sizes = pack_plain_row(
            first, queue.queue_id, queue.next_offset, stored_ms, new.born_ms, new.born_host, queue.packed_topic, rows
        )
        *positions, end = accumulate(sizes, initial=first)
        if max(sizes) > self._record_bytes_max or end > self._records_end:
            return self._append_each(new, stored_ms, on_stored, context)
        entries = b"".join(map(_pack_entry, positions, sizes, map(_tags_code_of, rows)))
        # Nothing has changed so far; from here on nothing can fail.
        self._settlements.append((on_stored, context, queue.next_offset, first, True))
        self._records += pieces
        self._position = end
        self._last_start = positions[-1]
        self.last_stored_ms = stored_ms
        queue.next_offset += len(positions)
        queue.tail += entries
        queue.new_bytes += self._position - first
        self._queues[queue] = queue.max_offset
        return positions

    def append_batch(  # house: hot, once per batch
        self,
        queue: Queue,
        born_ms: int,
        born_host: bytes,
        batch: bytes,
        added: bytes,
        stored_ms: MessageMs,
        on_stored: OnStored,
        context: Any,
    ) -> list[int] | None:
        """`append_all` of a batch's body as it came, with the properties `added` to each message.

        None if it isn't plain, if it doesn't fit into this segment, or without the compiled twin: nothing has happened.
        """
        if twin is None or queue.deleted:
            return None
        first = self._position
        # fmt: off
        packed = twin.pack_batch(
            batch, added, first, queue.queue_id, queue.next_offset, stored_ms, born_ms, born_host, queue.packed_topic,
            self._record_bytes_max, crc32,
        )
        # fmt: on
        if packed is None:
            return None
        records, entries, positions = packed
        if first + len(records) > self._records_end:
            return None
        # Nothing has changed so far; from here on nothing can fail.
        self._settlements.append((on_stored, context, queue.next_offset, first, True))
        self._records.append(records)
        self._position = first + len(records)
        self._last_start = positions[-1]
        self.last_stored_ms = stored_ms
        queue.next_offset += len(positions)
        queue.tail += entries
        queue.new_bytes += self._position - first
        self._queues[queue] = queue.max_offset
        return positions

    @property
    def room(self) -> tuple[int, int, int]:
        """Where the next record begins, where records have to end in this segment, and how large one may be."""
        return self._position, self._records_end, self._record_bytes_max

    def append_packed(self, packed: Packed, stored_ms: MessageMs, on_stored: OnStored | None, context: Any) -> None:
        """Put records on the burst that were packed for `room`. `on_stored`: as with `append_all`, or None."""
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

    def _append_each(self, new: NewRows, stored_ms: MessageMs, on_stored: OnStored, context: Any) -> list[int]:
        """`append_all` of records that aren't plain or don't all fit into this segment."""
        positions: list[int] = []
        queue, born_host = new.queue, new.born_host
        self._check_size(max(record_size(born_host, queue.packed_topic, row[1], row[2]) for row in new.rows))
        for flag, properties, body, tags_code in new.rows:
            record = NewRecord(queue, properties, tags_code, body, new.born_ms, born_host, new.sys_flag, flag)
            positions.append(self.put(record, stored_ms, None if positions else on_stored, context))
        return positions

    def put(self, new: NewRecord, stored_ms: MessageMs, on_stored: OnStored | None, context: Any) -> int:
        """`append` of a record that isn't plain, or has no room in this segment, or perhaps in none. Raises: as it."""
        queue = new.queue
        is_seen = enters_consume_queue(new.sys_flag)
        queue_offset = queue.next_offset if is_seen else 0  # As RocketMQ has it.
        packed = _pack(new, self._position, queue_offset, stored_ms)
        end = self._position + len(packed)
        if end > self._records_end or len(packed) > self._record_bytes_max or queue.deleted:
            self._make_room(queue, len(packed))
            packed = _pack(new, self._position, queue_offset, stored_ms)
        position = self._position
        entry = _pack_entry(position, len(packed), new.tags_code)
        # Nothing has changed so far but the room; from here on nothing can fail.
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

    def _make_room(self, queue: Queue, size: int) -> None:
        """Let the burst go on in the next segment if a record of `size` bytes has no room in this one."""
        if not self._is_open:
            raise StorageError(f"the store in {self._name} is closed")
        if (refusal := self.refusal) is not None:
            raise refusal
        if queue.deleted:
            raise StorageError(
                f"the queues of {queue.topic} were deleted while a message was on its way; send it again"
            )
        self._check_size(size)
        if self._position + size <= self._records_end:
            return
        segment_end = self._records_end + BLANK_BYTES_MIN
        if self._position < segment_end:
            self._records.append(pack_blank(self._position, segment_end - self._position))
        if self._records:
            self._chunks.append(Chunk(self._chunk_position, self._records))
        self._records = []
        self._chunk_position = self._position = segment_end
        self._set_room_end(segment_end + self._settings.segment_bytes_max - BLANK_BYTES_MIN)

    def _check_size(self, size: int) -> None:
        if size > self._record_bytes_max:
            raise StorageError(f"a record of {size} bytes is too large: {self._record_bytes_max} is the limit")

    def commit(self) -> dict[Queue, int]:
        """Write the burst, make it visible, settle its appends; return the queues that got messages, from which offset.

        If it can't be written, nothing of it has happened, all its appends are settled as FAILED (`failure` says why)
        and the next burst may succeed. Never raises.
        """
        if not self._records:
            return {}
        records, settlements, end = self._records, self._settlements, self._position
        try:
            self._log.write([*self._chunks, Chunk(self._chunk_position, records)], end)
        except OSError as error:
            self._fail(error)
            return {}
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
        return arrivals

    def _fail(self, error: OSError) -> None:
        settlements = self._settlements
        self._failure = f"the log of {self._name} can't be written: {error}; nothing was stored"
        for queue in self._queues:
            queue.roll_back()
        self._log.cut_stale_tail()
        self._start()
        settle(settlements, PutOutcome.FAILED)


def _pack(new: NewRecord, position: int, queue_offset: int, stored_ms: MessageMs) -> bytes:
    queue = new.queue
    return pack_record(
        position, queue.queue_id, queue_offset, stored_ms, new.born_ms, new.sys_flag, new.flag, new.reconsume_times,
        new.prepared_position, new.born_host, queue.packed_topic, new.properties, new.body,
    )  # fmt: skip
