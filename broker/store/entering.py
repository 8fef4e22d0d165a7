"""Enter the records of the log into their queues, at start."""

from collections.abc import Callable, Container
from typing import TypeAlias

import msgspec

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import HOLES_MAX, Queue
from staticfire.broker.store.log_scan import LogScan, ScannedRecord
from staticfire.broker.store.queue_files import ENTRY, write_entries
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.record import peek_record, peek_topic_and_properties
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.runtime.machine import Files

# A rebuild from a long log writes its queues whenever it has entered this number of records.
ENTRIES_IN_MEMORY_MAX = 1_000_000
_NOWHERE = 1 << 63

TagsCodeOf: TypeAlias = Callable[[str, bytes, int, int], int]
"""(topic, properties, stored_ms, log_position) -> tags code of the queue entry, which the record does not contain."""


class EnteredRecords(msgspec.Struct):
    start_position: int
    last_stored_ms: int
    last_position: int = -1
    records: int = 0
    boundary_seen: bool = False
    problems: list[str] = []


class QueuesDisagree(Exception):
    """A record has another offset than its queue expects: entries below the checkpoint are missing or wrong."""


class Entering:
    """Makes queues agree with the log from a position on."""

    def __init__(
        self, files: Files, log: CommitLog, queues: QueueTable, settings: StoreSettings, tags_code_of: TagsCodeOf
    ) -> None:
        self._files = files
        self._log = log
        self._queues = queues
        self._settings = settings
        self._tags_code_of = tags_code_of
        self.holes_from = _NOWHERE
        """Records from this position on may follow lost ones."""
        self.deleted_topics: dict[str, int] = {}
        """For each topic, the log's end at the time of its deletion: earlier records of it enter no queue."""

    def enter_all(self, found: EnteredRecords, claimed: int) -> LogScan:
        """Enter every record from the start position on into its queue."""
        self._queues.trusted_below = found.start_position
        found.boundary_seen = found.start_position == claimed
        return self._enter_from(found.start_position, found, claimed)

    def enter_behind_hole(self, position: int, found: EnteredRecords, claimed: int) -> LogScan:
        """Continue after a hole that was blanked out. Its records are missing in the queues."""
        self.holes_from = min(self.holes_from, position)
        return self._enter_from(position, found, claimed)

    def enter_only(self, names: Container[tuple[str, int]]) -> EnteredRecords:
        """Enter the records of some queues, from the log's start on, and skip damaged places."""
        found = EnteredRecords(self._log.min_position, last_stored_ms=0)
        for position, record in self._log.records_from(found.start_position):
            if (peek_topic_and_properties(record, 0)[0], peek_record(record, 0).queue_id) in names:
                self._enter(ScannedRecord(position, len(record), record, 0), found)
                if found.records % ENTRIES_IN_MEMORY_MAX == 0:
                    self._write_queues()
        return found

    def _enter_from(self, position: int, found: EnteredRecords, claimed: int) -> LogScan:
        scan = LogScan(self._log.segments, position, may_end_segment=True)
        for record in scan:
            found.boundary_seen |= record.log_position == claimed
            self._enter(record, found)
            if found.records % ENTRIES_IN_MEMORY_MAX == 0:
                self._write_queues()
        found.boundary_seen |= scan.position == claimed
        return scan

    def _enter(self, record: ScannedRecord, found: EnteredRecords) -> None:
        position, size, window, at = record
        _, _, queue_id, queue_offset, stored_ms, _, sys_flag = peek_record(window, at)
        found.records += 1
        found.last_position = position
        found.last_stored_ms = max(found.last_stored_ms, stored_ms)
        topic, properties = peek_topic_and_properties(window, at)
        if position < self.deleted_topics.get(topic, 0) or not enters_consume_queue(sys_flag):
            return
        queue = self._queues.by_name.get((topic, queue_id)) or self._queues.load(topic, queue_id)
        if queue.next_offset != queue_offset:
            self._jump(queue, queue_offset, position, found)
        queue.add(ENTRY.pack(position, size, self._tags_code_of(topic, properties, stored_ms, position)))
        self._queues.dirty[queue] = None

    def _jump(self, queue: Queue, queue_offset: int, position: int, found: EnteredRecords) -> None:
        """Let a queue continue at another offset than it expects.

        If the scan began at the log's start, the log is right.
        """
        # For an empty queue the hole explains nothing: its files may be lost, too.
        is_behind_hole = position >= self.holes_from and not queue.is_empty
        if found.start_position > self._log.min_position and not is_behind_hole:
            raise QueuesDisagree(
                f"queue {queue.queue_id} of {queue.topic} ends at offset {queue.next_offset}, "
                f"but the record at {position} has offset {queue_offset}"
            )
        holes = queue_offset - queue.next_offset
        if queue.is_empty:
            queue.begin_at(queue_offset)
        elif 0 < holes <= HOLES_MAX:
            found.problems.append(
                f"{holes} messages of queue {queue.queue_id} of {queue.topic} are lost, from offset "
                f"{queue.next_offset} on: their records were damaged"
            )
            queue.add_holes(holes)
        else:
            found.problems.append(
                f"offset {queue.next_offset} of queue {queue.queue_id} of {queue.topic} is followed by {queue_offset}: "
                "the messages between them are lost"
            )
            queue.begin_at(queue_offset)

    def _write_queues(self) -> None:
        round_ = self._queues.start_round()
        while not round_.is_done:
            batch = round_.next_batch(self._settings.queues_per_flush_max)
            write_entries(self._files, batch.writes)
            self._queues.written(batch)
