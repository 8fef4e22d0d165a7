"""The message store: the only owner of the files in its folder. RocketMQ: DefaultMessageStore.

    <folder>/commitlog/       all records                    commit_log.py, segments.py, log_scan.py
    <folder>/consumequeue/    positions of a queue's records queue_table.py, consume_queue.py, queue_files.py
    <folder>/checkpoint ...   up to where both are safe      state_files.py, flush_round.py, recovery.py

Appends are buffered in a burst (appender.py). `commit` writes the burst to the log with one write and then makes it
visible to readers. Invariant: every visible message is in the log.

Everything in this module is synchronous. flusher.py waits for the disk in the background. Code outside of this package
uses only the methods of `MessageStore`, never the log or the queues directly.
"""
# house: one class, the API of the package

import errno
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

import msgspec

from staticfire.broker.store.appender import Appender
from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.copied import CopiedLog
from staticfire.broker.store.damage import next_whole
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.broker.store.findings import REBUILT_QUEUE, Finding, Findings
from staticfire.broker.store.flush_round import FlushStep, flush_steps
from staticfire.broker.store.formats import refuse_others
from staticfire.broker.store.outcomes import Entry, NotForGood, OldSegment, ReadResult
from staticfire.broker.store.proof import ReadProof
from staticfire.broker.store.queue_table import QueueShort, QueueTable
from staticfire.broker.store.reading import WRONG_ENTRIES_MAX, WrongEntry, read_queue
from staticfire.broker.store.recovery import Recovery, RecoveryReport
from staticfire.broker.store.scrub import Scrub
from staticfire.broker.store.segments import Segment
from staticfire.broker.store.settings import READ_ENTRIES_MAX, StoreSettings
from staticfire.broker.store.settling import Settling, WaitForCopies, WaitForSync
from staticfire.broker.store.short_queues import ShortQueues
from staticfire.broker.store.state_files import Checkpoint, StateFiles
from staticfire.broker.store.time_search import Boundary, probes, search_offset
from staticfire.protocol.errors import BrokerAnswer, StorageError, os_words
from staticfire.protocol.limits import PULL_BYTES_MAX, PULL_MESSAGES_MAX
from staticfire.protocol.record import peek_record
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.machine import Files, FolderLock

# `close` writes all dirty queues if that takes at most this number of flushes and one sync covers a whole flush.
FLUSHES_AT_END = 20
# Each try but the last repairs up to 32 wrong entries. If more are needed, this program has a bug, and a single read
# must not block everything else.
READ_TRIES_MAX = 100


class MessageStore:  # house: the API of a whole package: a few lines for each operation that others need
    """Appends, reads and recovers messages. Call `open` first, and `close` after the flusher has stopped."""

    def __init__(
        self,
        files: Files,
        folder: str,
        settings: StoreSettings,
        tags_code_of: TagsCodeOf,
        tell: Callable[[Finding], None] = lambda finding: None,
    ) -> None:
        """`tell` is called for each damage that is found while the store is in use."""
        self._files = files
        self._folder = folder
        self.settings = settings
        self._tags_code_of = tags_code_of
        self.log = CommitLog(files, f"{folder}/commitlog", settings)
        self._queues = QueueTable(files, f"{folder}/consumequeue", self.log, settings)
        self._by_name = self._queues.by_name
        self._short = ShortQueues(files, self.log, self._queues, settings, tags_code_of)
        self._state = StateFiles(files, folder)
        self._checkpoint = Checkpoint()
        self._deleted_topics: dict[str, int] = {}
        self._keeps_queues: BrokerAnswer | None = None
        self._lock: FolderLock | None = None
        self.findings = Findings(tell)
        self._proof = ReadProof(self.log, tags_code_of, self.findings, self._deleted_below)
        self.scrub = Scrub(self.log, self._queues, tags_code_of, self.findings, self._deleted_below)
        """Checks the log in the background. The caller carries out its steps."""
        self._settling = Settling(self.log, settings)
        self._burst = Appender(self.log, self._queues, settings, self._settling, folder)
        # These are bound directly, because each send calls them.
        self.put, self.put_all, self.put_packed = self._burst.put, self._burst.put_all, self._burst.put_packed
        self.when_written, self.commit = self._burst.when_written, self._burst.commit

    # --- open and close

    def open(self, uptime_ms: Callable[[], UptimeMs] | None = None) -> RecoveryReport:
        """Lock the folder, recover, and get ready to append and read.

        `uptime_ms` measures how long this took. Raises: StorageError.
        """
        started_ms = uptime_ms() if uptime_ms is not None else 0
        try:
            self._files.make_folder(self._folder)
            self._lock = self._files.lock_folder(self._folder)
        except BlockingIOError as error:
            raise StorageError(f"the store can't be opened: {error.strerror}") from error
        except OSError as error:
            raise StorageError(
                f"the store in {self._folder} can't be used: {os_words(error)}; it must be writable"
            ) from error
        recovery = Recovery(
            self._files, self._folder, self.log, self._queues, self._state, self.settings, self._tags_code_of
        )
        try:
            refuse_others(self._files, self._folder)
            report = recovery.run()
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError):
                raise StorageError(f"the store in {self._folder} can't be recovered: {error}") from error
            raise
        self.findings.rebuilt_queues = report.short_queues
        self._deleted_topics = recovery.deleted_topics
        self._checkpoint = Checkpoint(dispatched_position=report.start_position)
        self._burst.open(recovery.last_position, MessageMs(recovery.last_stored_ms))
        return report if uptime_ms is None else msgspec.structs.replace(report, took_ms=uptime_ms() - started_ms)

    def close(self) -> None:
        """Write everything to the disk and release the folder. Too many dirty queues are left to the next recovery.

        Raises: StorageError (the next start recovers then).
        """
        if self._lock is None:
            return
        try:
            self.commit()
            flushes = len(self._queues.dirty) / self.settings.queues_per_flush_max
            if flushes <= 1 or (flushes <= FLUSHES_AT_END and self._files.syncs_together):
                self.flush()
            else:
                self.log.sync()
            self.log.sync_names()
            self._state.mark_closed()
        except OSError as error:
            raise StorageError(f"the store in {self._folder} could not be closed properly: {error}") from error
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._burst.close()
        self.log.close()
        self._queues.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- queues

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue, created on demand. Don't keep the object after its topic was deleted.

        Raises: StorageError (the topic can't be the name of a folder), OSError.
        """
        return self._by_name.get((topic, queue_id)) or self._load(topic, queue_id)

    def _load(self, topic: str, queue_id: int) -> Queue:
        try:
            return self._queues.load(topic, queue_id)
        except QueueShort:
            self.mend_short_queues((topic, queue_id))
            return self._by_name[topic, queue_id]

    def end_at_least(self, topic: str, queue_id: int) -> int:
        """Return an offset that the queue is known to reach, without reading its files."""
        return self._queues.end_of(topic, queue_id)

    def looks_at_ends(self) -> Iterator[Callable[[], bool]]:
        """Yield checks for workers that the files of all queues are complete. If one returns False, mend the queues."""
        return self._short.looks(self._queues.recorded)

    def mend_short_queues(self, *names: tuple[str, int]) -> None:
        """Rebuild queues whose files were removed or cut: the named ones, and all incomplete ones that aren't in use.

        This takes as long as reading the log, and blocks everything else meanwhile. Raises: OSError, StorageError.
        """
        rebuilt = self._short.rebuild(self._short.find_all(self._queues.recorded, names), self._deleted_topics)
        for (topic, queue_id), end in rebuilt.ends.items():
            reason = f"its files had lost entries; {rebuilt.lost.get((topic, queue_id), 0)} could not be restored"
            self.findings.rebuilt(Finding(REBUILT_QUEUE, -1, reason, topic, queue_id, end))

    def forget_hole(self) -> None:
        """Forget where the log lost a part (`RecoveryReport.hole_position`). Raises: OSError."""
        self._state.forget_hole()

    def delete_queues(self, *topics: str) -> None:
        """Remove the queues of topics; their records are kept in the log.

        Queues that are created again begin at offset 0.

        Raises: NotForGood (they are removed, but may reappear after a power loss), StorageError or BrokerAnswer
        (nothing was removed).
        """
        if self._keeps_queues is not None:
            raise self._keeps_queues
        self._burst.commit_early()  # Before the position is read: what is in the burst is deleted, too.
        self._delete_queues(dict.fromkeys(topics, self.log.end_position))

    def keep_queues(self, reason: BrokerAnswer | None) -> None:
        """Let every `delete_queues` raise `reason` from now on. None: queues can be deleted again."""
        self._keeps_queues = reason

    def delete_as_copied(self, deletions: dict[str, int]) -> None:
        """Remove the queues of topics that were deleted in the log that this one is copied from.

        `deletions`: topic and the position of its deletion, perhaps after the end of this log. Raises: as above.
        """
        news = {topic: position for topic, position in deletions.items() if self._deleted_topics.get(topic) != position}
        if news:
            self._delete_queues(news)

    def _delete_queues(self, topics: dict[str, int]) -> None:
        self._burst.commit_early()
        deleted_topics = {**self._deleted_topics, **topics}
        named = next(iter(topics)) if len(topics) == 1 else f"{len(topics)} topics"
        trouble: Exception | None = None
        try:
            self._state.write_deleted_topics(deleted_topics)
        except NotForGood as error:
            # Continue with the deletion: if the old queues were kept, the next start would treat new messages in them
            # as deleted.
            trouble = error
        except OSError as error:
            raise StorageError(f"the queues of {named} can't be removed: {error}; nothing was changed") from error
        self._deleted_topics = deleted_topics
        for topic in topics:
            try:
                self._queues.delete(topic)
            except OSError as error:
                trouble = error  # The next start removes the rest.
        if trouble is not None:
            raise NotForGood(f"the queues of {named} could not be removed for good: {trouble}; try again") from trouble

    @property
    def deletions(self) -> dict[str, int]:
        """The log's end position when each topic was deleted, for topics that have records in the log, or queues."""
        return self._deleted_topics

    def _deleted_below(self, topic: str) -> int:
        """Return the position below which records of a topic are obsolete, because the topic was deleted there."""
        return self._deleted_topics.get(topic, 0)

    def topics(self) -> list[str]:
        """Return the topics that have queues, sorted."""
        return self._queues.topics()

    @property
    def strays(self) -> list[str]:
        """Unknown files and folders that were found among the queues' files so far."""
        return list(self._queues.strays)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have or had a message, sorted. Raises: OSError."""
        return self._queues.queue_ids(topic)

    # --- appending: `put`, `put_all`, `put_packed` and `when_written` of `Appender`, then `commit`

    @property
    def room(self) -> tuple[int, int, int]:
        """The position of the next record, the position where records must end for now, and the largest record size."""
        return self._burst.room

    def copy_of_log(self) -> CopiedLog:
        """Return the means to append pieces of another broker's log, which needs no permission by `refuse`."""
        return CopiedLog(self._burst, self.log, self.queue, self._deleted_below, self._tags_code_of)

    def begin_copy_at(self, position: int) -> None:
        """Begin the empty log at a position: the one that it is copied from has lost what was before.

        Raises: StorageError, OSError.
        """
        self._note_log_start(position)
        self.copy_of_log().begin_at(position)

    @property
    def last_position(self) -> int:
        """The position of the log's last record; -1 if unknown."""
        return self._burst.last_position

    @property
    def failure(self) -> StorageError | None:
        """The reason why the most recent failed burst failed."""
        return self._burst.failure

    @property
    def last_stored_ms(self) -> MessageMs:
        """The stored time of the newest record. Message time must not be set to an earlier value."""
        return self._burst.last_stored_ms

    def refuse(self, reason: StorageError | None, cause: str = "disk full") -> None:
        """Make every append raise `reason` from now on. With None, remove this cause; other causes still apply."""
        self._burst.refuse(cause, reason)

    @property
    def refusal(self) -> StorageError | None:
        """The reason why appends are refused now; None when they are accepted."""
        return self._burst.refusal

    def use_flusher(self, on_written: Callable[[], None], wait_for_sync: WaitForSync) -> None:
        """Call `on_written` after each burst. With SYNC_FLUSH, appends that wait for the disk go to `wait_for_sync`."""
        self._settling.use_flusher(on_written, wait_for_sync)

    def use_copies(self, wait_for_copies: WaitForCopies | None) -> None:
        """Pass appends that wait for slaves to `wait_for_copies`; None: no append waits for them."""
        self._settling.use_copies(wait_for_copies)

    def forget_flusher(self) -> None:
        """Sync in `commit` again when an append waits for the disk."""
        self._settling.forget_flusher()

    # --- reading

    @property
    def min_position(self) -> int:
        """The position of the oldest record in the log."""
        return self.log.min_position

    @property
    def max_position(self) -> int:
        """The position of the log's end."""
        return self.log.end_position

    def segment_end(self, position: int) -> int | None:
        """Return where the segment of a position ends; None if it has the usual size, or isn't there yet.

        It has another size if it was created when mappedFileSizeCommitLog was another one.
        """
        segment = self.log.segments.at(position)
        is_usual = segment is None or segment.end - segment.start == self.settings.segment_bytes_max
        return None if segment is None or is_usual else segment.end

    def begins_segment(self, position: int) -> bool:
        """Return whether a segment begins at a position."""
        segment = self.log.segments.at(position)
        return segment is None or segment.start == position

    @property
    def synced_position(self) -> int:
        """The position up to which the log survives a power loss."""
        return self.log.synced_position

    @property
    def oldest_stored_ms(self) -> MessageMs | None:
        """The stored time of the oldest record; None if the log is empty."""
        return self.log.first_stored_ms(self.log.min_position)

    def read(
        self,
        queue: Queue,
        offset: int,
        messages_max: int = PULL_MESSAGES_MAX,
        bytes_max: int = PULL_BYTES_MAX,
        wanted: Callable[[int], bool] | None = None,
    ) -> ReadResult:
        """Return the positions of messages from `offset` on whose tags code is `wanted`, at least one if there is one.

        Only undamaged messages are returned; damaged ones are skipped. Raises: StorageError.
        """
        log, messages_max = self.log, max(messages_max, 1)
        try:
            for tries in range(READ_TRIES_MAX):
                try:
                    found = read_queue(
                        log.min_position, queue, offset, messages_max, bytes_max, wanted, in_order=not tries
                    )
                except WrongEntry as wrong:
                    self._proof.mend(queue, wrong.offset, wrong.offset + WRONG_ENTRIES_MAX)
                    continue
                if not found.positions or (
                    found.positions[0] >= log.synced_position
                    and found.first_offset >= queue.tail_offset
                    and not log.has_failed_sync
                ):
                    return found
                proven = self._proof.prove(queue, found)
                if proven is not None:
                    return proven
                self._proof.mend(queue, found.first_offset, found.end_offset)
        except OSError as error:
            raise StorageError(f"queue {queue.queue_id} of {queue.topic} can't be read: {error}") from error
        raise StorageError(
            f"queue {queue.queue_id} of {queue.topic} can't be read from offset {offset} on: its data is damaged and "
            "can't be repaired; restart the broker, which checks all queues"
        )

    def records(self, found: ReadResult) -> list[bytes]:
        """Return the records that a read found, in one slice if they are adjacent. Raises: StorageError, OSError."""
        if found.slices is not None:
            return found.slices
        positions, sizes = found.positions, found.sizes
        if positions[-1] + sizes[-1] - positions[0] == found.record_bytes:
            return [self.log.read(positions[0], found.record_bytes)]
        return self.log.read_each(positions, sizes)

    def some_records(self, found: ReadResult, positions: list[int], sizes: list[int]) -> list[bytes]:
        """Return some of the records that a read found, one by one. Raises: StorageError, OSError."""
        slices = found.slices
        if slices is None:
            return self.log.read_each(positions, sizes)
        if len(slices) == 1:
            start, whole = found.positions[0], slices[0]
            return [whole[at - start : at - start + size] for at, size in zip(positions, sizes, strict=True)]
        by_position = dict(zip(found.positions, slices, strict=True))
        return [by_position[position] for position in positions]

    def entries(self, queue: Queue, offset: int, count: int) -> list[Entry]:
        """Return up to `count` entries: positions of records, and their tags codes. Raises: StorageError.

        The entry of a damaged record is returned as it is stored, perhaps only zeros.
        """
        try:
            offset = max(offset, queue.min_offset)
            entries = queue.entries(offset, count)
            wanted = min(count, queue.max_offset - offset)
            if offset < queue.tail_offset and (
                len(entries) < wanted or not self._proof.entries_fit(queue, offset, entries)
            ):
                self._proof.mend(queue, offset, offset + wanted)
                entries = queue.entries(offset, count)
            return entries
        except OSError as error:
            raise StorageError(f"queue {queue.queue_id} of {queue.topic} can't be read: {error}") from error

    def unchecked_entries(self, queue: Queue, offset: int, count: int) -> list[Entry]:
        """Return entries for a caller that checks them itself, as many as the queue has. Raises: StorageError."""
        try:
            return queue.entries(offset, count)
        except OSError as error:
            raise StorageError(f"queue {queue.queue_id} of {queue.topic} can't be read: {error}") from error

    def unchecked_records(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the records at these (position, size), for a caller that checks them; adjacent ones share a slice.

        Raises: StorageError, OSError.
        """
        runs: list[tuple[int, int]] = []
        start = end = -1
        for position, size in places:
            if position != end:
                if end >= 0:
                    runs.append((start, end - start))
                start = position
            end = position + size
        runs.append((start, end - start))
        return [self.log.read_unmapped(*run) for run in runs]

    def log_window(self, log_position: int, bytes_max: int) -> bytes:
        """Return the log's bytes from a record on, up to the end of its segment. Raises: StorageError, OSError."""
        return self.log.read_unmapped(log_position, self._window(log_position, bytes_max)[1])

    def window_end(self, log_position: int) -> int:
        """Return where a large `log_window` ends: at the end of the segment, or of the log. Raises: StorageError."""
        return log_position + self._window(log_position, self.log.end_position)[1]

    def log_view(self, log_position: int, bytes_max: int) -> memoryview:
        """Do the same without a copy, for a system call. Release the view before the store is used again."""
        segment, size = self._window(log_position, bytes_max)
        return self.log.segments.file_of(segment).view(log_position - segment.start, size)

    def _window(self, log_position: int, bytes_max: int) -> tuple[Segment, int]:
        segment = self.log.segments.at(log_position)
        if segment is None:
            raise StorageError(f"the commit log has no segment for position {log_position}: a file of it was removed")
        return segment, min(segment.end, self.log.end_position, log_position + bytes_max) - log_position

    def next_record(self, log_position: int) -> int:
        """Return where the next whole record begins after a damaged place, or the log's end. Raises: OSError."""
        found = next_whole(self.log.segments, log_position, self.log.end_position)
        return self.log.end_position if found is None else found

    def record_at(self, log_position: int) -> bytes | None:
        """Return the whole record at a position; None if there is none or it is damaged. Raises: OSError."""
        try:
            return self.record_now(log_position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None

    def record_now(self, log_position: int) -> bytes | None:
        """Like `record_at`, for a caller that can retry later. Raises: OSError, also if a sector can't be read."""
        return self.log.record_at(log_position)

    def records_from(self, log_position: int) -> Iterator[tuple[int, bytes]]:
        """Iterate over (position, record) of the log, from the beginning of a record on."""
        return self.log.records_from(log_position)

    def stored_ms_of(self, queue: Queue, offset: int) -> MessageMs | None:
        """Return when a message was stored; None if there is none at that offset. Raises: StorageError."""
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        entries = self.entries(queue, offset, 1)
        record = self.record_at(entries[0].log_position) if entries and entries[0].record_bytes else None
        return None if record is None else MessageMs(peek_record(record).stored_ms)

    def search_offset(self, queue: Queue, message_ms: MessageMs, boundary: Boundary) -> int:
        """Return the offset that corresponds to a stored time. Raises: StorageError."""
        return search_offset(
            queue.min_offset,
            queue.max_offset,
            message_ms,
            boundary,
            lambda offset: self._next_stored(queue, offset),
        )

    def _next_stored(self, queue: Queue, offset: int) -> tuple[int, MessageMs] | None:
        """Return the first readable message from an offset on and its stored time; None if none was found."""
        for at in probes(offset, queue.max_offset, READ_ENTRIES_MAX):
            stored_ms = self.stored_ms_of(queue, at)
            if stored_ms is not None:
                return at, stored_ms
        return None

    # --- retention

    def oldest_segment(self) -> OldSegment | None:
        """Return the log's first segment; None if it is the one being written. Raises: StorageError."""
        try:
            return self.log.oldest_segment()
        except OSError as error:
            raise StorageError(f"the age of the log in {self._folder} can't be read: {error}") from error

    def remove_segments_before(self, log_position: int) -> int:
        """Remove the segments that end at or below a position, and return their number. The last one is kept.

        The queues' min offsets are raised accordingly. Segments that the checkpoint doesn't cover yet are kept as well.

        Raises: StorageError.
        """
        below = min(log_position, self._checkpoint.dispatched_position)
        start = self.log.start_without(below)
        if start <= self.log.min_position:
            return 0
        try:
            is_noted = self._note_log_start(start)
            removed = self.log.remove_before(below)
            if not is_noted:
                # Now there is room on the disk.
                self._note_log_start(start)
            self._queues.remove_old_files()
        except OSError as error:
            raise StorageError(f"old segments of {self._folder} could not be removed: {error}") from error
        return removed

    def _note_log_start(self, position: int) -> bool:
        """Save where the log begins; return False if the disk is full. Raises: OSError."""
        try:
            self._state.write_log_start(position)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True

    # --- flushing

    def flush_steps(self) -> Generator[FlushStep]:
        """Yield the blocking steps that flush everything written so far; see flush_round.py."""
        checkpoint = Checkpoint(
            dispatched_position=self.log.end_position,
            last_stored_ms=self.last_stored_ms,
            last_position=self._burst.last_position,
            queue_file_entries=self.settings.queue_file_entries,
            log_start=self.log.min_position,
        )
        yield from flush_steps(
            self._files, self.log, self._queues, self._state, checkpoint, self.settings.queues_per_flush_max
        )
        self._checkpoint = checkpoint

    def flush(self) -> None:
        """Flush everything written so far. Blocks. Raises: OSError."""
        with closing(self.flush_steps()) as steps:
            for step in steps:
                step.carry_out()
