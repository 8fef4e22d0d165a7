"""Finding out at start what the last process left behind. RocketMQ: CommitLog.recoverAbnormally, doRecheckReputOffset.

From the checkpoint on every record is checked and entered into its queue again. The first thing that is no whole
record ends the log: what lies behind is cut off, and the report says how much, and whether whole records were in it.

Invariants: afterwards log and queues agree; nothing stale lies behind the end; the checkpoint on the disk never claims
more than what is true at that moment, so recovery may be killed and begin anew at any point.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.log_scan import Leftovers, LogScan, ScannedRecord, leftovers_behind
from staticfire.broker.store.queue_files import ENTRY, write_entries
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.state_files import Checkpoint, StateFiles
from staticfire.protocol.record import Found, peek_record, peek_topic_and_properties
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.runtime.machine import Files

ENTRIES_IN_MEMORY_MAX = 1_000_000
# A rebuild from a long log writes its queues now and then.

TagsCodeOf: TypeAlias = Callable[[str, bytes, int], int]
"""(topic, properties, stored_ms) -> tags code of the queue entry, which the record does not carry."""


class RecoveryReport(msgspec.Struct, frozen=True):
    """What was found at start."""

    was_closed: bool
    """The last process ended in order."""
    start_position: int
    """Where checking began."""
    end_position: int
    """Where the log ends and goes on."""
    checked_records: int
    cut_bytes: int
    """What lay behind the end, up to the last byte that was not zero."""
    cut_reason: str
    lost_records: int
    """Whole records among the cut bytes: the log was damaged in its middle."""
    lost_synced_bytes: int
    """How much of what was cut or missing had been reported as safe by the disk."""
    rebuilt: bool
    """The queues were made anew from the whole log."""
    problems: tuple[str, ...]
    took_ms: int = 0

    @property
    def is_damaged(self) -> bool:
        """Whether something is gone that a torn last write does not explain: a person should look at it."""
        return self.lost_records > 0 or self.lost_synced_bytes > 0


class _Findings(msgspec.Struct):
    start_position: int
    last_stored_ms: int
    last_position: int = -1
    records: int = 0
    boundary_seen: bool = False
    problems: list[str] = []


class _QueuesDisagree(Exception):
    """A record has another offset than its queue expects: entries below the checkpoint are missing or wrong."""


class Recovery:
    """One recovery: `run` it on a log and queues that were just opened."""

    def __init__(
        self,
        files: Files,
        log: CommitLog,
        queues: QueueTable,
        state: StateFiles,
        settings: StoreSettings,
        tags_code_of: TagsCodeOf,
    ) -> None:
        self._files = files
        self._log = log
        self._queues = queues
        self._state = state
        self._settings = settings
        self._tags_code_of = tags_code_of
        self.deleted_topics: dict[str, int] = {}
        self.last_position = -1
        """Where the last record begins; -1 when only the start of a segment is known to be its end."""
        self.last_stored_ms = 0

    def run(self) -> RecoveryReport:
        """Bring log and queues into agreement. Raises: OSError, StorageError."""
        was_closed = not self._state.is_in_use()
        segments = self._log.segments
        segments.load()
        segments.pinned_position = 1 << 63  # nothing is being synced: any segment may be closed
        self.deleted_topics = self._state.read_deleted_topics()
        has_queues = self._queues.open(self.deleted_topics)
        checkpoint = self._state.read_checkpoint()
        self._state.mark_in_use()
        if checkpoint is not None and checkpoint.log_start >= 0:
            # Retention takes nothing that the checkpoint doesn't vouch for: a log that begins behind it has lost its
            # first segments with the power, before anything of them was safe. What there is lies behind a gap.
            segments.begin_at(checkpoint.dispatched_position)
        found, scan, rebuilt = self._check(checkpoint if has_queues else None)
        leftovers = self._cut(scan, not was_closed)
        claimed = checkpoint or Checkpoint()
        self._take_back(claimed, scan.position, found)
        self._log.start_at(scan.position, claimed.synced_position)
        self.last_position, self.last_stored_ms = found.last_position, found.last_stored_ms
        return RecoveryReport(
            was_closed=was_closed,
            start_position=found.start_position,
            end_position=scan.position,
            checked_records=found.records,
            cut_bytes=leftovers.dirty_bytes,
            cut_reason=scan.verdict.reason if leftovers.dirty_bytes else "",
            lost_records=leftovers.whole_records,
            lost_synced_bytes=max(0, claimed.synced_position - scan.position),
            rebuilt=rebuilt,
            problems=tuple(found.problems),
        )

    # --- from where

    def _check(self, checkpoint: Checkpoint | None) -> tuple[_Findings, LogScan, bool]:
        segments = self._log.segments
        if checkpoint is None or checkpoint.queue_file_entries != self._settings.queue_file_entries:
            problems = (
                ["there was no checkpoint that fits, or there were no queues: all queues were rebuilt"]
                if segments.all
                else []
            )
            return *self._rebuild(problems), bool(segments.all)
        claimed = max(checkpoint.dispatched_position, segments.min_position)
        try:
            found, scan = self._enter_from(self._start(checkpoint, claimed), checkpoint, claimed)
        except _QueuesDisagree as disagreement:
            return *self._rebuild([f"{disagreement}: all queues were rebuilt"]), True
        if scan.position > claimed and not found.boundary_seen:
            return *self._rebuild([f"no record begins at the checkpoint {claimed}: all queues were rebuilt"]), True
        return found, scan, False

    def _start(self, checkpoint: Checkpoint, claimed: int) -> int:
        """Return the position claimed by the checkpoint, or the start of its segment when no record ends there."""
        segments = self._log.segments
        if not segments.all:
            return 0
        segment = segments.at(claimed) or segments.last
        if claimed in (segment.start, segments.last.end):
            return claimed
        self._log.end_position = segments.last.end
        record = self._log.record_at(checkpoint.last_position)
        if record is not None and checkpoint.last_position + len(record) == claimed:
            return claimed
        return segment.start

    # --- entering

    def _enter_from(self, start: int, checkpoint: Checkpoint, claimed: int) -> tuple[_Findings, LogScan]:
        found = _Findings(start, checkpoint.last_stored_ms, checkpoint.last_position)
        if start < checkpoint.dispatched_position:
            # From here on entries are cut off that the old checkpoint vouched for.
            self._state.write_checkpoint(checkpoint._replace(dispatched_position=start, last_position=-1))
            found.last_position = -1
        return found, self._enter_all(found, claimed)

    def _rebuild(self, problems: list[str]) -> tuple[_Findings, LogScan]:
        start = self._log.min_position
        self._state.write_checkpoint(
            Checkpoint(start, queue_file_entries=self._settings.queue_file_entries, log_start=start)
        )
        self._queues.forget_all()
        found = _Findings(self._log.min_position, last_stored_ms=0, problems=problems)
        return found, self._enter_all(found, found.start_position)

    def _enter_all(self, found: _Findings, claimed: int) -> LogScan:
        """Enter every record from the start on into its queue."""
        self._queues.trusted_below = found.start_position
        scan = LogScan(self._log.segments, found.start_position)
        found.boundary_seen = found.start_position == claimed
        for record in scan:
            found.boundary_seen |= record.log_position == claimed
            self._enter(record, found)
            if found.records % ENTRIES_IN_MEMORY_MAX == 0:
                self._write_queues()
        found.boundary_seen |= scan.position == claimed
        return scan

    def _enter(self, record: ScannedRecord, found: _Findings) -> None:
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
        queue.add(ENTRY.pack(position, size, self._tags_code_of(topic, properties, stored_ms)))
        self._queues.dirty[queue] = None

    def _jump(self, queue: Queue, queue_offset: int, position: int, found: _Findings) -> None:
        """Let a queue go on with another offset than it expects. From the log's start on, the log is right."""
        if found.start_position > self._log.min_position:
            raise _QueuesDisagree(
                f"queue {queue.queue_id} of {queue.topic} ends at offset {queue.next_offset}, "
                f"but the record at {position} has offset {queue_offset}"
            )
        if not queue.is_empty:
            found.problems.append(
                f"offset {queue.next_offset} of queue {queue.queue_id} of {queue.topic} is followed by {queue_offset}: "
                f"what came before is gone"
            )
        queue.restart_at(queue_offset)

    def _write_queues(self) -> None:
        round_ = self._queues.start_round()
        while not round_.is_done:
            batch = round_.next_batch(self._settings.queues_per_flush_max)
            write_entries(self._files, batch.writes)
            self._queues.written(batch)

    # --- after

    def _cut(self, scan: LogScan, unclean: bool) -> Leftovers:
        segments = self._log.segments
        end = scan.position
        segment = segments.at(end)
        if segment is None or not (unclean or scan.verdict.found is Found.BROKEN or segment is not segments.last):
            return Leftovers(0, 0)
        leftovers = leftovers_behind(segments, end)
        if leftovers.dirty_bytes or segment is not segments.last:
            segments.cut(end)
        return leftovers

    def _take_back(self, claimed: Checkpoint, end: int, found: _Findings) -> None:
        """Correct what the state files claim about positions that are now behind the end."""
        if end < max(claimed.synced_position, claimed.dispatched_position):
            self._queues.load_all()
            self._state.write_checkpoint(
                Checkpoint(
                    dispatched_position=found.start_position,
                    synced_position=min(claimed.synced_position, end),
                    last_stored_ms=found.last_stored_ms,
                    last_position=claimed.last_position if found.start_position == claimed.dispatched_position else -1,
                    queue_file_entries=self._settings.queue_file_entries,
                    log_start=self._log.min_position,
                )
            )
        deleted = {
            topic: min(position, end)
            for topic, position in self.deleted_topics.items()
            if position > self._log.min_position
        }
        if deleted != self.deleted_topics:
            self._state.write_deleted_topics(deleted)
            self.deleted_topics = deleted
