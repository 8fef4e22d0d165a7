"""Store delayed messages again in their real queues. RocketMQ: ScheduleMessageService.messageTimeUp.

A delivered message has the same content as the waiting one: body, flags, born time and host, retries, and the property
string byte for byte (including DELAY, REAL_TOPIC and REAL_QID). Only its queue, its stored time and its mark are new.
"""

from itertools import repeat
from typing import Any, TypeAlias

import msgspec

from staticfire.broker.delay.level_history import LevelHistory
from staticfire.broker.delay.queue import DueEntry
from staticfire.broker.delay.stored_form import Mark, pack_mark, real_place
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import NoFolderName, PutOutcome
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.delay_levels import queue_of_level
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.record import StoredRecord, decode_record, decode_records, is_intact, join_records
from staticfire.protocol.tags import tags_code
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("broker")

HOMES_MAX = 10_000

Blocked: TypeAlias = dict[int, OSError | StorageError]
"""The levels whose next message can't be delivered now, and why."""


class DueSlice(msgspec.Struct, gc=False):
    """Some messages in the burst, and the outcome."""

    last_offsets: dict[int, int]
    """By level: the offset of the last message that is done."""
    delivered: int = 0
    skipped: int = 0
    failed: bool = False
    """Whether the burst could not be written."""

    def settled(self, _context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        """Save the outcome of the burst."""
        self.failed = outcome is PutOutcome.FAILED


class Delivery:
    """Adds due messages to the burst."""

    def __init__(self, store: MessageStore, levels: LevelHistory) -> None:
        self._store = store
        self._levels = levels
        # Queues by the end of the properties string, where `delayed` has put topic and queue id.
        self._homes: dict[bytes, Queue] = {}
        # Messages that were delivered before the start, although the delivery of an earlier one was lost in a hole.
        # Never iterated.
        self._delivered_ahead: set[Mark] = set()

    def is_delivered(self, mark: Mark) -> None:
        """Note that the log contains the delivery of a message that is in the queue again."""
        self._delivered_ahead.add(mark)

    def put(
        self, due: list[DueEntry], records: list[StoredRecord] | None, stored_ms: MessageMs, blocked: Blocked
    ) -> DueSlice:
        """Add messages to the burst in this order; skip those that can never be delivered.

        Otherwise the rest of their level would never be delivered. If one can't be delivered now, its level is added to
        `blocked`, and this message and the later ones of its level aren't added to the burst. `records` is the result
        of `read`; if None, each record is read by itself.
        """
        part = DueSlice({})
        for entry, record in zip(due, records or repeat(None), strict=False):
            if blocked and entry.level in blocked:
                continue
            if self._delivered_ahead and Mark(entry.level, entry.offset) in self._delivered_ahead:
                self._delivered_ahead.discard(Mark(entry.level, entry.offset))
                part.skipped += 1
                part.last_offsets[entry.level] = entry.offset
                continue
            try:
                # A burst is written completely or not at all, so it is enough to watch one of its messages.
                on_stored = None if part.delivered else part.settled
                self._store.put(self._again(entry, record or self._read_one(entry)), stored_ms, on_stored)
                part.delivered += 1
            except (ProtocolError, NoFolderName) as error:
                log.error("delayed_message_skipped", level=entry.level, offset=entry.offset, error=str(error))
                part.skipped += 1
            except (StorageError, OSError) as error:
                blocked[entry.level] = error
                continue
            part.last_offsets[entry.level] = entry.offset
        return part

    def _again(self, entry: DueEntry, record: StoredRecord) -> NewRecord:
        """Return a message as it is stored in its real queue. Raises: ProtocolError, StorageError, OSError."""
        # wait_flush=False: no caller waits for the disk here, because a level's progress is saved only after the disk
        # has it.
        properties = record.properties
        return NewRecord(
            self._home_of(properties), properties, tags_code(properties), record.body, record.born_ms,
            record.born_host, record.sys_flag, record.flag, record.reconsume_times,
            pack_mark(entry.level, entry.offset), wait_flush=False,
        )  # fmt: skip

    def read(self, due: list[DueEntry]) -> list[StoredRecord] | None:
        """Return the records with few reads; None if one of them is damaged or doesn't match its entry."""
        try:
            slices = self._store.unchecked_records([(entry.log_position, entry.record_bytes) for entry in due])
            records = decode_records(join_records(slices, len(due)))
        except (ProtocolError, StorageError, OSError):
            return None
        data, at = memoryview(slices[0] if len(slices) == 1 else b"".join(slices)), 0
        levels_at = self._levels.at
        for record, (_, level, offset, position, size, entry_code) in zip(records, due, strict=True):
            if (
                record.queue_offset != offset
                or record.log_position != position
                or record.stored_ms + levels_at(position).delay_ms(level) != entry_code
                or record.queue_id != queue_of_level(level)
                or record.topic != SCHEDULE_TOPIC
                or not is_intact(data[at : at + size], record)
            ):
                return None
            at += size
        return records

    def _read_one(self, entry: DueEntry) -> StoredRecord:
        """Return the whole record of an entry. Raises: OSError, ProtocolError (there is none, or it is damaged)."""
        data = self._store.record_at(entry.log_position)
        if data is None:
            raise ProtocolError(f"its record at position {entry.log_position} of the log is damaged")
        record = decode_record(data)
        if record.queue_offset != entry.offset or record.topic != SCHEDULE_TOPIC:
            raise ProtocolError(f"the record at {entry.log_position} is a different one")
        return record

    def _home_of(self, properties: bytes) -> Queue:
        """Return the real queue of a message. Raises: ProtocolError (there is none), StorageError, OSError."""
        tail = properties[properties.rfind(b"REAL_TOPIC\x01") :]
        queue = self._homes.get(tail)
        if queue is not None and not queue.deleted:
            return queue
        place = real_place(properties)
        if place is None:
            raise ProtocolError("its target topic and queue are missing")
        queue = self._store.queue(*place)
        if tail == b"REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (place[0].encode(), place[1]):
            if len(self._homes) >= HOMES_MAX:
                self._homes.clear()
            self._homes[tail] = queue
        return queue
