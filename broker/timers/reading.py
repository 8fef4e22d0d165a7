"""Read messages that wait for a time of their own: all of a slice with few reads, or one by one."""

from collections.abc import Sequence

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import WHEEL_TIMER_TOPIC
from staticfire.protocol.record import StoredRecord, decode_record, decode_records, is_intact, join_records


class WaitingRecords:
    """The records of rmq_sys_wheel_timer."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @property
    def queue(self) -> Queue:
        return self._store.queue(WHEEL_TIMER_TOPIC, 0)

    def many(self, offsets: Sequence[int]) -> list[StoredRecord] | None:
        """Return the records of these queue offsets, in that order; None if one is damaged or doesn't match."""
        if not offsets:
            return []
        ordered = sorted(offsets)
        try:
            places = [place for run in _runs(ordered) for place in self._places(*run)]
            if len(places) != len(ordered):
                return None
            slices = self._store.unchecked_records(places)
            records = decode_records(join_records(slices, len(places)))
        except (ProtocolError, StorageError, OSError):
            return None
        data, at = memoryview(slices[0] if len(slices) == 1 else b"".join(slices)), 0
        for record, offset, (position, size) in zip(records, ordered, places, strict=True):
            is_it = record.queue_offset == offset and record.log_position == position
            if not is_it or record.topic != WHEEL_TIMER_TOPIC or not is_intact(data[at : at + size], record):
                return None
            at += size
        by_offset = dict(zip(ordered, records, strict=True))
        return [by_offset[offset] for offset in offsets]

    def _places(self, offset: int, count: int) -> list[tuple[int, int]]:
        """Return the log positions and sizes of consecutive queue offsets. Raises: StorageError."""
        entries = self._store.unchecked_entries(self.queue, offset, count)
        return [(entry.log_position, entry.record_bytes) for entry in entries if entry.record_bytes > 0]

    def one(self, offset: int) -> StoredRecord:
        """Return a record.

        Raises: ProtocolError (it is gone or damaged), StorageError (the queue can't be read now), OSError (the record
        can't be read now).
        """
        entries = self._store.entries(self.queue, offset, 1)
        data = self._store.record_at(entries[0].log_position) if entries and entries[0].record_bytes else None
        if data is None:
            raise ProtocolError(f"the record of offset {offset} is missing or damaged")
        record = decode_record(data)
        if record.topic != WHEEL_TIMER_TOPIC or record.queue_offset != offset:
            raise ProtocolError(f"the record at {record.log_position} is a different one")
        return record


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending offsets as runs of consecutive ones, each as (first, count)."""
    runs: list[tuple[int, int]] = []
    first = end = -1
    for offset in offsets:
        if offset != end:
            if end >= 0:
                runs.append((first, end - first))
            first = offset
        end = offset + 1
    return [*runs, (first, end - first)]
