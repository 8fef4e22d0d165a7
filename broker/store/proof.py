"""Check what a read is about to return, and repair wrong entries of a queue.

Data that this process has written and the disk hasn't confirmed yet is still in memory, where it can't be damaged, so a
consumer without lag pays nothing here. Everything else is checked when it is read first: entry against record
(position, size, magic, topic, queue, offset) and both CRCs. Messages that were read together and found whole aren't
checked again as long as they are among the newest `PROVEN_MAX` messages read; damage that happens meanwhile is found by
the scrub.

A wrong entry is rebuilt from the log, because queues are derived from it. A damaged record is kept in the log as it is,
but all readers skip it from then on. First reads use pread, so that a bad sector causes an error and not a SIGBUS.
"""

import errno
from collections.abc import Callable, Sequence
from itertools import accumulate

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.damage import next_whole
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.broker.store.findings import DAMAGED_RECORD, MENDED_ENTRY, Finding, Findings
from staticfire.broker.store.log_scan import LogScan
from staticfire.broker.store.outcomes import Entry, ReadResult
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.protocol.checksums import crc32
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import (
    Found,
    check_record,
    peek_queue_offsets,
    peek_record,
    peek_topic_and_properties,
    proven_offset,
)

# The number of messages that are remembered as checked: 2 MiB.
PROVEN_MAX = 32_768
# How much of the log is searched for the records of wrong entries: 0.2 s, during which nothing else runs.
SEARCH_BYTES_MAX = 64 * 1024 * 1024
# Records are read in one piece of the log if that is at most this many times their size: single reads take longer.
SPAN_TIMES_MAX = 8
# The number of entries tried, each at twice the distance, to find which part of the log to search.
NEIGHBOURS_MAX = 16

_Place = tuple[int, int, bytes]
"""Log position, size, entry."""
_Proven = tuple[Queue, int, Sequence[int], Sequence[int], Sequence[int] | None]
"""Queue, first offset, positions, sizes, offsets: as in `ReadResult`."""


class ReadProof:
    """Checks reads of one store."""

    def __init__(
        self, log: CommitLog, tags_code_of: TagsCodeOf, findings: Findings, deleted_below: Callable[[str], int]
    ) -> None:
        """`deleted_below`: records of a topic before that position are obsolete."""
        self._deleted_below = deleted_below
        self._log = log
        self._tags_code_of = tags_code_of
        self._findings = findings
        # Checked reads by the log position of the first record. The whole read is compared, because an entry may have
        # been damaged meanwhile and lead to other records.
        self._proven: dict[int, _Proven] = {}
        self._proven_messages = 0
        # The last search: queue, start, end, and the places that it found.
        self._searched: tuple[Queue, int, int, dict[int, _Place]] | None = None

    # --- checking

    def prove(self, queue: Queue, found: ReadResult) -> ReadResult | None:
        """Return what was found, with its records if they had to be read; None if some of it is wrong."""
        positions, sizes = found.positions, found.sizes
        key = queue, found.first_offset, positions, sizes, found.offsets
        if self._proven.get(positions[0]) == key:
            return found
        slices = self._read(positions, sizes, found.record_bytes)
        if slices is None or not self._fit(queue, found, slices):
            return None
        if self._proven_messages > PROVEN_MAX:
            self._proven.clear()
            self._proven_messages = 0
        self._proven[positions[0]] = key
        self._proven_messages += len(positions)
        # fmt: off
        return ReadResult(
            found.status, found.next_offset, found.min_offset, found.max_offset, positions, sizes, found.record_bytes,
            found.first_offset, found.end_offset, slices, found.offsets,
        )
        # fmt: on

    def _read(self, positions: Sequence[int], sizes: Sequence[int], total_bytes: int) -> list[bytes] | None:
        """Read records, in one slice if they are adjacent. Return None if one of them can't be read."""
        start, span_bytes = positions[0], positions[-1] + sizes[-1] - positions[0]
        if span_bytes == total_bytes:
            span = self._read_one(start, span_bytes)
            return None if span is None else [span]
        if total_bytes < span_bytes <= total_bytes * SPAN_TIMES_MAX:
            span = self._read_one(start, span_bytes)
            if span is not None:
                return [span[at - start : at - start + size] for at, size in zip(positions, sizes, strict=True)]
            # The unreadable place may be between the records.
        records: list[bytes] = []
        for record in map(self._read_one, positions, sizes):
            if record is None:
                return None
            records.append(record)
        return records

    def _read_one(self, position: int, size: int) -> bytes | None:
        try:
            return self._log.read_unmapped(position, size)
        except StorageError:
            return None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None

    def _fit(self, queue: Queue, found: ReadResult, slices: list[bytes]) -> bool:
        """Tell whether these are whole records of the queue, at the expected offsets."""
        if not self._are_whole(queue, found, slices):
            return False
        if found.offsets is None:
            return True  # There are as many records as offsets, with increasing offsets, so they are the right ones.
        if len(slices) == 1:
            ends = accumulate(found.sizes)
            slices = [slices[0][end - size : end] for end, size in zip(ends, found.sizes, strict=True)]
        return peek_queue_offsets(slices) == [*found.offsets]

    def _are_whole(self, queue: Queue, found: ReadResult, slices: list[bytes]) -> bool:
        """Tell whether these are whole records of the queue, with increasing offsets within the expected range."""
        queue_id, topic = queue.queue_id, queue.packed_topic
        least, end = found.first_offset, found.end_offset
        if twin is not None:
            return twin.are_proven(slices, found.positions, found.sizes, queue_id, topic, least, end, crc32)
        is_one = len(slices) == 1
        whole = memoryview(slices[0])
        at = 0
        for index, (position, size) in enumerate(zip(found.positions, found.sizes, strict=True)):
            if is_one:
                data = whole[at : at + size]
                at += size
            else:
                data = memoryview(slices[index])
            offset = proven_offset(data, position, size, queue_id, topic)
            if not least <= offset < end:
                return False
            least = offset + 1
        return True

    def entries_fit(self, queue: Queue, offset: int, entries: list[Entry]) -> bool:
        """Tell whether entries that were read from files match their records, including the tags codes."""
        return all(
            at in queue.unreadable or self._entry_fits(queue, at, entry) for at, entry in enumerate(entries, offset)
        )

    def _entry_fits(self, queue: Queue, offset: int, entry: Entry) -> bool:
        """Tell whether an entry leads to a whole record of that queue and offset, or is marked as lost."""
        position, size, tags_code = entry
        if position < 0 and size == 0:
            return True
        slices = self._read((position,), (size,), size) if size > 0 else None
        if (
            slices is None
            or proven_offset(memoryview(slices[0]), position, size, queue.queue_id, queue.packed_topic) != offset
        ):
            return False
        record = slices[0]
        topic, properties = peek_topic_and_properties(record)
        return self._tags_code_of(topic, properties, peek_record(record).stored_ms, position) == tags_code

    # --- mending

    def mend(self, queue: Queue, first_offset: int, end_offset: int) -> None:
        """Rebuild wrong entries, and note offsets without a whole record.

        Raises: StorageError (neither helps), OSError.
        """
        wrong = [
            offset
            for offset in range(first_offset, min(end_offset, queue.max_offset))
            if offset not in queue.unreadable and not self._entry_fits(queue, offset, _entry(queue, offset))
        ]
        places = self._places(queue, wrong[0], wrong[-1] + 1) if wrong else {}
        if places and wrong[0] == queue.min_offset < min(places):
            # The log's oldest record of the queue is later: retention has removed the records of the entries before it.
            queue.begins_at(min(places))
        for offset in wrong:
            if offset < queue.min_offset:
                continue
            place, entry = places.get(offset), _entry(queue, offset)
            if place is None:
                if self._log.is_in_doubt(entry.log_position):
                    # The message must not be skipped: it will be written again, or a restart reuses its offset.
                    place_words = f"offset {offset} of queue {queue.queue_id} of {queue.topic}"
                    raise StorageError(f"{place_words} can't be read: the disk hasn't accepted it yet; try again")
                queue.unreadable.add(offset)
                self._findings.damaged(self._damaged(queue, offset, entry))
                continue
            position, _, right = place
            reason = f"its entry had {entry.record_bytes} bytes at position {entry.log_position}, {entry.tags_code}"
            queue.mend(offset, right)
            self._findings.mended(Finding(MENDED_ENTRY, position, reason, queue.topic, queue.queue_id, offset))
            if queue.entry_bytes(offset, 1) != right:
                words = f"offset {offset} of queue {queue.queue_id} of {queue.topic} can't be repaired: {reason}"
                raise StorageError(words)

    def _damaged(self, queue: Queue, offset: int, entry: Entry) -> Finding:
        """Describe why there is no record."""
        position, size, _ = entry
        reason = "the log has no complete record of it"
        slices = self._read((position,), (size,), size) if size > 0 else None
        if slices is not None and position >= 0:
            verdict = check_record(slices[0], 0, position)
            if verdict.found is Found.BROKEN:
                reason = verdict.reason
        elif size > 0:
            reason = "it can't be read"
        return Finding(DAMAGED_RECORD, position if size > 0 else -1, reason, queue.topic, queue.queue_id, offset)

    def _places(self, queue: Queue, first_offset: int, end_offset: int) -> dict[int, _Place]:
        """Return by offset the places of a queue's records in the log, limited by `SEARCH_BYTES_MAX`."""
        start = self._neighbour(queue, first_offset, -1)
        stop = self._neighbour(queue, end_offset - 1, 1)
        if start == self._log.min_position and stop < self._log.end_position:
            start = max(start, stop - SEARCH_BYTES_MAX)  # Only the upper bound comes from an entry: search before it.
        stop = min(stop, start + SEARCH_BYTES_MAX)
        searched = self._searched
        if searched is not None and searched[0] is queue and searched[1] <= start and stop <= searched[2]:
            return searched[3]
        places = dict(self._search(queue, start, stop))
        self._searched = queue, start, stop, places
        return places

    def _neighbour(self, queue: Queue, offset: int, step: int) -> int:
        """Return the record position of a near correct entry before or after an offset, else the log's start or end."""
        for _ in range(NEIGHBOURS_MAX):
            offset += step
            if not queue.min_offset <= offset < queue.max_offset:
                break
            entry = _entry(queue, offset)
            if self._entry_fits(queue, offset, entry):
                return entry.log_position
            step *= 2
        return self._log.min_position if step < 0 else self._log.end_position

    def _search(self, queue: Queue, start: int, stop: int) -> dict[int, _Place]:
        places: dict[int, _Place] = {}
        position: int | None = start
        while position is not None:
            scan = LogScan(self._log.segments, position)
            for log_position, size, window, at in scan:
                if log_position >= stop:
                    return places
                peek = peek_record(window, at)
                if peek.queue_id != queue.queue_id:
                    continue
                topic, properties = peek_topic_and_properties(window, at)
                if topic == queue.topic and log_position >= self._deleted_below(topic):
                    tags_code = self._tags_code_of(topic, properties, peek.stored_ms, log_position)
                    places[peek.queue_offset] = log_position, size, ENTRY.pack(log_position, size, tags_code)
            position = next_whole(self._log.segments, scan.position + 1, stop) if scan.position < stop else None
        return places


def _entry(queue: Queue, offset: int) -> Entry:
    """Return one entry, or zeros if it is missing."""
    entries = queue.entry_bytes(offset, 1)
    return Entry._make(ENTRY.unpack(entries)) if len(entries) == ENTRY_BYTES else Entry(0, 0, 0)
