"""Check the log in the background, part by part, to find bit rot in places that are not being read.

A worker reads and checks a part. A problem is checked again on the loop before it is believed, because the file may
have been closed meanwhile. Each whole record is compared with its queue's entry if the queue is in use, and a wrong
entry is rebuilt. This includes the tags code: with a wrong one, a filtered read would skip the message. A record after
its queue's end is reported, whether the queue is in use or not.

Only what the disk has confirmed is checked. A damaged record is reported and counted (findings.py); nothing else
changes, because every reader detects it by itself.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.damage import next_whole
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.broker.store.findings import DAMAGED_RECORD, MENDED_ENTRY, RECORD_BEYOND, Finding, Findings
from staticfire.broker.store.log_scan import read_readable
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.broker.store.queue_table import QueueTable
from staticfire.protocol.record import Found, check_record, peek_record, peek_record_bytes, peek_topic_and_properties
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.runtime.machine import File

# The bytes checked by one step. With small messages a worker needs a millisecond or two, and no other thread runs
# Python code during it.
SCRUB_BYTES = 64 * 1024
# The number of entries before and after a wrong one that are used to decide whether a record belongs there.
NEIGHBOURS = 32


class Indexed(NamedTuple):
    """A whole record, with the data that its queue must have."""

    topic: str
    queue_id: int
    queue_offset: int
    log_position: int
    entry: bytes


class Part(NamedTuple):
    """The findings of one step."""

    end_position: int
    """Where the next step begins; if there is damage, where it is."""
    records: list[Indexed]
    fault: str
    """The reason why no record is at `end_position`; "" if there is no problem."""


class Scrub:
    """The progress of the scrub of one store."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        tags_code_of: TagsCodeOf,
        findings: Findings,
        deleted_below: Callable[[str], int],
    ) -> None:
        self._log = log
        self._queues = queues
        self._tags_code_of = tags_code_of
        self._findings = findings
        self._deleted_below = deleted_below
        self._position = 0
        self._wanted_bytes = SCRUB_BYTES

    def step(self) -> Callable[[], Part] | None:
        """Return the next work for a worker; None at the end of a round. Raises: OSError."""
        log = self._log
        position = max(self._position, log.min_position)
        segment = log.segments.at(position)
        if segment is None or position >= log.synced_position:
            self._position = 0
            self._findings.scrub_rounds += 1
            return None
        end = min(segment.end, log.synced_position, position + self._wanted_bytes)
        file = log.segments.file_of(segment)
        is_end = end == segment.end or end == log.synced_position
        return partial(self._look, file, position - segment.start, position, end - position, is_end)

    def _look(self, file: File, file_at: int, position: int, size: int, is_end: bool) -> Part:
        """Check the records of a part, in a worker. Raises: OSError."""
        data = read_readable(file, file_at, size)
        records: list[Indexed] = []
        at = 0
        while at < len(data):
            verdict = check_record(data, at, position + at)
            if verdict.found is Found.RECORD:
                if enters_consume_queue(peek_record(data, at).sys_flag):
                    records.append(self._indexed(data, at, verdict.size))
            elif verdict.found is not Found.BLANK:
                reaches_out = len(data) - at < 8 or peek_record_bytes(data, at) > len(data) - at
                return Part(position + at, records, "" if reaches_out and not is_end else verdict.reason)
            at += verdict.size
        return Part(position + at, records, "")

    def _indexed(self, data: bytes, at: int, size: int) -> Indexed:
        peek = peek_record(data, at)
        topic, properties = peek_topic_and_properties(data, at)
        position = peek.log_position
        tags_code = self._tags_code_of(topic, properties, peek.stored_ms, position)
        entry = ENTRY.pack(position, size, tags_code)
        return Indexed(topic, peek.queue_id, peek.queue_offset, position, entry)

    def looked(self, part: Part) -> None:
        """Process the findings of a step. Raises: OSError."""
        before = max(self._position, self._log.min_position)
        self._findings.scrubbed_bytes += max(0, part.end_position - before)
        for record in part.records:
            self._compare(record)
        # A record larger than a part is checked again in a part that is large enough.
        self._wanted_bytes = SCRUB_BYTES if part.end_position > before else 2 * self._wanted_bytes
        self._position = part.end_position
        if part.fault:
            self._damaged(part)

    def _compare(self, record: Indexed) -> None:
        topic, queue_id, offset, position, _ = record
        if position < max(self._log.min_position, self._deleted_below(topic)):
            return
        if offset >= self._queues.end_of(topic, queue_id):
            reason = "its queue ends before it, so no consumer gets it"
            self._findings.beyond(Finding(RECORD_BEYOND, position, reason, topic, queue_id, offset))
            return
        queue = self._queues.by_name.get((topic, queue_id))
        if queue is None or offset >= queue.flushed_offset:
            return
        entry = queue.entry_bytes(offset, 1)
        if entry == record.entry:
            return
        if self._is_anothers(entry, record) or not _is_in_order(queue, offset, position):
            # The record is from an earlier queue of this name: its topic was deleted, and the deletion could not be
            # saved.
            return
        queue.mend(offset, record.entry)
        queue.unreadable.discard(offset)
        reason = "the scrub found a different entry there, or none"
        self._findings.mended(Finding(MENDED_ENTRY, position, reason, topic, queue_id, offset))

    def _is_anothers(self, entry: bytes | bytearray, record: Indexed) -> bool:
        """Tell whether an entry belongs to another record with the same topic, queue and offset."""
        position, size, _ = ENTRY.unpack(entry) if len(entry) == ENTRY_BYTES else (-1, 0, 0)
        other = self._log.record_at(position) if size > 0 and position != record.log_position else None
        if other is None or len(other) != size:
            return False
        peek = peek_record(other)
        topic, _ = peek_topic_and_properties(other)
        return (topic, peek.queue_id, peek.queue_offset) == (record.topic, record.queue_id, record.queue_offset)

    def _damaged(self, part: Part) -> None:
        """Check a damaged place again, report it, and continue after it."""
        position, end = part.end_position, self._log.synced_position
        if position < self._log.min_position or self._log.record_at(position) is not None:
            return
        found = next_whole(self._log.segments, position, end)
        if found == position:
            return  # It is a blank.
        self._findings.damaged(Finding(DAMAGED_RECORD, position, part.fault))
        self._position = end if found is None else found


def _is_in_order(queue: Queue, offset: int, log_position: int) -> bool:
    """Tell whether the record of an offset can be at that position: after the records of the offsets before it."""
    first = max(0, offset - NEIGHBOURS)
    neighbours = list(ENTRY.iter_unpack(queue.entry_bytes(first, offset - first))) if offset > first else []
    if any(size > 0 and position > log_position for position, size, _ in neighbours):
        return False
    following = min(NEIGHBOURS, queue.max_offset - offset - 1)
    neighbours = list(ENTRY.iter_unpack(queue.entry_bytes(offset + 1, following))) if following > 0 else []
    return all(size <= 0 or position > log_position for position, size, _ in neighbours)
