"""Recovery of log and queues at start. RocketMQ: CommitLog.recoverAbnormally, doRecheckReputOffset.

Recovery reads the log from the checkpoint on, checks every record and enters it into its queue again. The log ends at
the first bytes that are no whole record, if no whole record follows: that is a torn last write, and it is cut off. If
whole records follow, the action depends on the cause:

- The hole is below the synced position: the log is damaged. Nothing is cut, and the start is refused (LogDamaged). With
  `salvage`, the damaged part is moved aside and blanked out, and all whole records after it are kept.
- The hole is above it, and the machine lost power: the log ends at the first hole, as in RocketMQ. The disk writes
  sectors in any order, so whole records may follow a lost one. If they were kept, a consumer would skip the lost one,
  and records that refer to it (a pop, an acknowledgement, a delivery) would refer to nothing. With SYNC_FLUSH the
  checkpoint may be older than the last fsync, so a hole that doesn't look torn (`looks_torn`) is handled like the next
  case.
- The hole is above it, and the machine kept running: a failed fsync left the hole. It is moved aside, and all whole
  records after it are kept.

Everything but a torn write is always kept in <folder>/damaged.

Invariants: afterwards log and queues agree, and no stale bytes follow the log's end. At any moment the checkpoint on
the disk claims only what is true, so recovery may be killed at any point and started again. A refused start leaves the
state files unchanged.
"""

import msgspec

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.damage import Damage, LogDamaged, Survey, blank_out, looks_torn, move_aside, survey_behind
from staticfire.broker.store.entering import EnteredRecords, Entering, QueuesDisagree, TagsCodeOf
from staticfire.broker.store.left_behind import LeftBehind, look
from staticfire.broker.store.log_scan import LogScan
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.broker.store.short_queues import EndsCheck, ShortQueues
from staticfire.broker.store.state_files import Checkpoint, StateFiles
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import Found, peek_record
from staticfire.runtime.machine import Files

ASIDE = "damaged"


NO_QUEUES = "no matching checkpoint or no queues were found: all queues were rebuilt"


class RecoveryReport(msgspec.Struct, frozen=True):
    """The findings of one recovery."""

    was_closed: bool
    """Whether the last process stopped in order."""
    start_position: int
    """The position where checking began."""
    end_position: int
    """The position of the log's end, where the next record goes."""
    checked_records: int
    cut_bytes: int
    """The number of bytes after the end, up to the last byte that was not zero."""
    cut_reason: str
    lost_records: int
    """The number of whole records among the cut bytes. If there are any, the log was damaged in its middle."""
    lost_synced_bytes: int
    """The number of cut or missing bytes that the disk had confirmed as synced."""
    kept_aside: tuple[str, ...]
    """Files that contain what was cut off or blanked out; a torn write isn't kept."""
    rebuilt: bool
    """Whether all queues were rebuilt from the whole log."""
    lost_files: int
    """The number of log files below the checkpoint that are missing, cut or damaged."""
    short_queues: int
    """The number of queues that were rebuilt because their files were incomplete."""
    problems: tuple[str, ...]
    took_ms: int = 0
    hole_position: int = -1
    """Where the first damaged part was, if whole records after it were kept; -1: there is none.

    Also after another start that was killed before `MessageStore.forget_hole`.
    """

    @property
    def is_damaged(self) -> bool:
        """Whether something is lost that a torn last write does not explain, so that an operator should look at it."""
        return self.lost_records > 0 or self.lost_synced_bytes > 0 or self.lost_files > 0 or bool(self.kept_aside)

    @property
    def may_lack_records(self) -> bool:
        """Whether the log may lack something before its end. If only queues were missing, it doesn't."""
        return self.is_damaged or self.hole_position >= 0 or any(problem != NO_QUEUES for problem in self.problems)


class Recovery:
    """One recovery. Call `run` with a log and queues that were just opened."""

    def __init__(
        self,
        files: Files,
        folder: str,
        log: CommitLog,
        queues: QueueTable,
        state: StateFiles,
        settings: StoreSettings,
        tags_code_of: TagsCodeOf,
    ) -> None:
        self._folder = folder
        self._files = files
        self._log = log
        self._queues = queues
        self._state = state
        self._settings = settings
        self._entering = Entering(files, log, queues, settings, tags_code_of)
        self._ends = EndsCheck(log, queues, state, ShortQueues(files, log, queues, settings, tags_code_of), settings)
        self.deleted_topics: dict[str, int] = {}
        self.last_position = -1
        """The position of the last record; -1 if it is unknown, or if the log ends at the start of a segment."""
        self.last_stored_ms = 0
        self._has_checkpoint = False
        self._kept_aside: list[str] = []
        self._cut_bytes = self._lost_records = 0
        self._cut_reason = ""

    def run(self) -> RecoveryReport:
        """Make log and queues agree. Raises: OSError, StorageError (LogDamaged: nothing was changed)."""
        known = look(self._files, self._log, self._queues, self._state)
        self.deleted_topics = self._entering.deleted_topics = known.deleted_topics
        self._has_checkpoint = known.has_checkpoint
        self._ends.look(known)
        was_closed, claimed = known.in_use is None, known.claimed
        if was_closed:
            self._state.mark_in_use(known.now_in_use)
        try:
            found, scan, survey, rebuilt = self._check_and_decide(known)
        except LogDamaged:
            if was_closed:
                self._state.mark_closed()
            raise
        self._cut(scan, survey, claimed)
        self._take_back(claimed, scan.position, found, was_closed)
        self._log.start_at(scan.position, claimed.synced_position, was_closed)
        if not was_closed:
            # Not earlier: until here the file shows whether the machine went down before this process.
            self._state.mark_in_use(known.now_in_use)
        if known.log_start is None or known.log_start > self._log.min_position:
            # The saved start is unreadable, or older segments exist again: the next start must not take them for
            # removed ones.
            self._state.write_log_start(self._log.min_position)
        short_queues = self._ends.complete(self.deleted_topics)
        found.problems += known.lost_files + self._ends.problems
        self.last_position, self.last_stored_ms = found.last_position, found.last_stored_ms
        return RecoveryReport(
            was_closed=was_closed,
            start_position=found.start_position,
            end_position=scan.position,
            checked_records=found.records,
            cut_bytes=self._cut_bytes,
            cut_reason=self._cut_reason,
            lost_records=self._lost_records,
            lost_synced_bytes=max(0, claimed.synced_position - scan.position),
            kept_aside=tuple(self._kept_aside),
            rebuilt=rebuilt,
            lost_files=len(known.lost_files),
            short_queues=short_queues,
            problems=tuple(found.problems),
            hole_position=self._state.read_hole(),
        )

    def _check_and_decide(self, known: LeftBehind) -> tuple[EnteredRecords, LogScan, Survey, bool]:
        """Check the log. If it is damaged, refuse the start or salvage what is whole. Raises: LogDamaged, OSError."""
        found, scan, rebuilt = self._check(known.checkpoint, known.claimed)
        survey = self._survey(scan, known)
        is_explained = known.explains_holes_at(scan.position) and not survey.misplaced
        if (survey.damages or survey.misplaced) and not is_explained and not self._settings.salvage:
            raise LogDamaged(survey.report(self._folder))
        if survey.damages and is_explained and self._ends_at_a_hole(known, survey):
            found.problems.append(_explain_end(survey))
        elif survey.damages:
            self._state.write_hole(survey.damages[0].position)
            self._salvage(survey)
            if is_explained:
                found.problems += [_explain(damage) for damage in survey.damages]
                found, scan, again = self._enter_behind(scan.position, found, known.claimed)
                rebuilt |= again
            else:
                found, scan = self._rebuild(["a salvage has moved damaged parts aside"], known.claimed)
                rebuilt = True
            survey = self._survey(scan, known)
            if survey.damages:
                raise StorageError(
                    f"the log in {self._folder} can't be salvaged there, because the disk loses written data: copy the "
                    "folder to another disk first"
                )
        return found, scan, survey, rebuilt

    def _ends_at_a_hole(self, known: LeftBehind, survey: Survey) -> bool:
        """Tell whether the log must end at a hole after the synced position. Raises: OSError."""
        if not known.has_lost_power or self._settings.salvage:
            return False
        is_promised = self._settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        return not is_promised or looks_torn(self._log.segments, survey.damages[0])

    # --- where to start

    def _check(self, checkpoint: Checkpoint | None, known: Checkpoint) -> tuple[EnteredRecords, LogScan, bool]:
        segments = self._log.segments
        if checkpoint is None or checkpoint.queue_file_entries != self._settings.queue_file_entries:
            return *self._rebuild([NO_QUEUES] if segments.all else [], known), bool(segments.all)
        claimed = max(checkpoint.dispatched_position, segments.min_position)
        try:
            found, scan = self._enter_from(self._start(checkpoint, claimed), checkpoint, claimed)
        except QueuesDisagree as disagreement:
            return *self._rebuild([f"{disagreement}: all queues were rebuilt"], known), True
        if scan.position > claimed and not found.boundary_seen:
            return *self._rebuild(
                [f"no record begins at the checkpoint {claimed}: all queues were rebuilt"], known
            ), True
        return found, scan, False

    def _start(self, checkpoint: Checkpoint, claimed: int) -> int:
        """Return the checkpoint's position, or the start of its segment if no record ends at that position."""
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

    def _last_stored_ms(self, checkpoint: Checkpoint) -> int:
        """Return the stored time of the last record before the checkpoint."""
        # It is read from the record itself: message time never goes back, so a wrong value would be kept for good.
        if self._log.segments.all:
            self._log.end_position = self._log.segments.last.end
        record = self._log.record_at(checkpoint.last_position)
        return checkpoint.last_stored_ms if record is None else peek_record(record)[4]

    # --- entering

    def _enter_from(self, start: int, checkpoint: Checkpoint, claimed: int) -> tuple[EnteredRecords, LogScan]:
        found = EnteredRecords(start, self._last_stored_ms(checkpoint), checkpoint.last_position)
        if start < checkpoint.dispatched_position:
            # From here on, entries are removed that the old checkpoint covers.
            self._state.write_checkpoint(checkpoint._replace(dispatched_position=start, last_position=-1))
            found.last_position = -1
        return found, self._entering.enter_all(found, claimed)

    def _enter_behind(
        self, position: int, found: EnteredRecords, known: Checkpoint
    ) -> tuple[EnteredRecords, LogScan, bool]:
        """Continue after a hole that was blanked out; return also whether all queues had to be rebuilt."""
        try:
            return found, self._entering.enter_behind_hole(position, found, known.dispatched_position), False
        except QueuesDisagree as disagreement:
            problems = [*found.problems, f"{disagreement}: all queues were rebuilt"]
            return *self._rebuild(problems, known), True

    def _rebuild(self, problems: list[str], known: Checkpoint) -> tuple[EnteredRecords, LogScan]:
        start, entries = self._log.min_position, self._settings.queue_file_entries
        # Without a checkpoint the synced position is unknown, and after a refused start it must still be unknown.
        synced = known.synced_position if self._has_checkpoint or not self._log.segments.all else -1
        ends_position = self._state.ends.log_position
        self._state.write_checkpoint(
            Checkpoint(start, synced, queue_file_entries=entries, log_start=start, ends_position=ends_position)
        )
        self._queues.forget_all()
        found = EnteredRecords(self._log.min_position, last_stored_ms=0, problems=problems)
        return found, self._entering.enter_all(found, found.start_position)

    # --- after the check

    def _survey(self, scan: LogScan, known: LeftBehind) -> Survey:
        """Examine the bytes after the last whole record."""
        segments = self._log.segments
        segment = segments.at(scan.position)
        is_as_closed = known.in_use is None and scan.position == known.claimed.synced_position
        is_as_closed = is_as_closed and scan.verdict.found is Found.NOTHING
        if segment is None or (is_as_closed and segment is segments.last):
            return Survey([], None, 0, {}, [])
        return survey_behind(segments, scan.position, scan.verdict.reason)

    def _salvage(self, survey: Survey) -> None:
        """Move all damaged parts except the tail aside and blank them out, so that the log continues after them."""
        for damage in survey.damages:
            self._keep(damage)
        for damage in survey.damages:
            blank_out(self._log.segments, damage)

    def _keep(self, damage: Damage) -> None:
        folder = f"{self._folder}/{ASIDE}"
        self._kept_aside.append(move_aside(self._files, self._log.segments, folder, damage))

    def _cut(self, scan: LogScan, survey: Survey, claimed: Checkpoint) -> None:
        """Cut off the bytes after the log's end. Save them in another file first, unless they are a torn write."""
        segments, end = self._log.segments, scan.position
        segment = segments.at(end)
        if segment is None:
            return
        leftovers = [*survey.damages, *([survey.tail] if survey.tail else [])]
        if leftovers:
            self._cut_bytes, self._cut_reason = survey.dirty_end - end, leftovers[0].reason
            self._lost_records = survey.whole_records
            if survey.whole_records or survey.misplaced or end < claimed.synced_position:
                self._keep(leftovers[0]._replace(position=end, end_position=survey.dirty_end))
        if leftovers or segment is not segments.last:
            segments.cut(end)

    def _take_back(self, claimed: Checkpoint, end: int, found: EnteredRecords, was_closed: bool) -> None:
        """Correct the state files where they refer to positions after the log's end.

        After an orderly stop, deletions are removed whose topics have no more records from before them in the log, and
        no queues: everything that refers to a deleted topic, such as offsets and the progress of delays, was saved
        without it. A topic with queues may still be deleted: see orphan_topics.py.
        """
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
                    ends_position=min(self._state.ends.log_position, end),
                )
            )
        deleted = {
            topic: min(position, end)
            for topic, position in self.deleted_topics.items()
            if position > self._log.min_position or self._queues.queue_ids(topic) or not was_closed
        }
        self._ends.take_back(end, deleted != self.deleted_topics)
        if deleted != self.deleted_topics:
            self._state.write_deleted_topics(deleted)
            self.deleted_topics = deleted


def _explain(damage: Damage) -> str:
    return (
        f"{damage.end_position - damage.position} bytes at position {damage.position} of the log are lost: the machine "
        "lost power, or the disk failed, before an fsync made them safe; all complete messages after them are kept"
    )


def _explain_end(survey: Survey) -> str:
    damage = survey.damages[0]
    return (
        f"the log ends at position {damage.position}: the machine lost power before an fsync made the data there safe, "
        f"so {survey.whole_records} messages that were written later were also cut off; all of this is kept in {ASIDE}/"
    )
