"""The message store: the only owner of the files below its folder. RocketMQ: DefaultMessageStore.

    <folder>/commitlog/       all records                    commit_log.py, segments.py, log_scan.py
    <folder>/consumequeue/    where each queue's records are queue_table.py, consume_queue.py, queue_files.py
    <folder>/checkpoint ...   how far both are safe          state_files.py, flush_round.py, recovery.py

Appends gather in a burst (appender.py); `commit` writes it with one write. Invariant: what is visible is in the log.

Everything here is synchronous; what waits for the disk in the background is flusher.py. Nobody outside of this package
reads past this face: what somebody needs of log or queues is a word here.
"""
# house: one class, the face of the package

import errno
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec

from staticfire.broker.store.appender import Appender
from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.damage import next_whole
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.broker.store.findings import REBUILT_QUEUE, Finding, Findings
from staticfire.broker.store.flush_round import FlushStep, flush_steps
from staticfire.broker.store.formats import refuse_others
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import Entry, NotForGood, OldSegment, OnStored, ReadResult
from staticfire.broker.store.proof import ReadProof
from staticfire.broker.store.queue_table import QueueShort, QueueTable
from staticfire.broker.store.reading import WRONG_ENTRIES_MAX, WrongEntry, read_queue
from staticfire.broker.store.recovery import Recovery, RecoveryReport
from staticfire.broker.store.scrub import Scrub
from staticfire.broker.store.settings import READ_ENTRIES_MAX, StoreSettings
from staticfire.broker.store.settling import Settling, WaitForSync
from staticfire.broker.store.short_queues import ShortQueues
from staticfire.broker.store.state_files import Checkpoint, StateFiles
from staticfire.broker.store.time_search import Boundary, probes, search_offset
from staticfire.protocol.errors import StorageError, os_words
from staticfire.protocol.limits import PULL_BYTES_MAX, PULL_MESSAGES_MAX
from staticfire.protocol.record import peek_record
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.machine import Files, FolderLock

FLUSHES_AT_END = 20
# So many times the queues of one flush are written at the end, where that is one sync for all of a flush.
READ_TRIES_MAX = 100
# Each but the last mends up to 32 wrong entries. More would be a fault of ours, and mustn't stop everything else.


class MessageStore:  # house: the face of a whole package: a few lines for each word that others need
    """Appends, reads, recovers. `open` it first; `close` it after its flusher has stopped."""

    def __init__(
        self,
        files: Files,
        folder: str,
        settings: StoreSettings,
        tags_code_of: TagsCodeOf,
        tell: Callable[[Finding], None] = lambda finding: None,
    ) -> None:
        """`tell` is called when something is found damaged while the store is in use."""
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
        self._lock: FolderLock | None = None
        self._early_arrivals: dict[Queue, int] = {}
        self.findings = Findings(tell)
        self._proof = ReadProof(self.log, tags_code_of, self.findings, self._deleted_below)
        self.scrub = Scrub(self.log, self._queues, tags_code_of, self.findings, self._deleted_below)
        """Looks through the log in the background; somebody has to carry out its steps."""
        self.burst_number = 0
        """Another one for each burst: who gathers the messages of one finds out by it that the next has begun."""
        self._settling = Settling(self.log, settings)
        self._burst = Appender(self.log, self._queues, settings, self._settling, folder)
        self.append = self._burst.append
        """Put a record on the burst: `Appender.append`, without a hop on the hot path."""
        self.append_all = self._burst.append_all
        """Put records of one queue on the burst, side by side: `Appender.append_all`."""
        self.append_batch = self._burst.append_batch
        """The same, of a batch's body as it came: `Appender.append_batch`."""
        self.append_packed = self._burst.append_packed
        """Put records on the burst that somebody packed for its `room`: `Appender.append_packed`."""

    # --- from start to end

    def open(self, uptime_ms: Callable[[], UptimeMs] | None = None) -> RecoveryReport:
        """Take the folder, recover, and be ready to append and read; `uptime_ms` measures how long that took.

        Raises: StorageError.
        """
        started_ms = uptime_ms() if uptime_ms is not None else 0
        try:
            self._files.make_folder(self._folder)
            self._lock = self._files.lock_folder(self._folder)
        except BlockingIOError as error:
            raise StorageError(f"the store can't be opened: {error.strerror}") from error
        except OSError as error:
            raise StorageError(
                f"the store in {self._folder} can't be used: {os_words(error)}; it needs to be writable"
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
        """Bring everything to the disk and leave the folder; what very many queues lack is left to the next start.

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
            raise StorageError(f"the store in {self._folder} could not be closed in order: {error}") from error
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
        """Return a queue, created on demand. Don't keep it beyond a deletion of its topic.

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
        """Return an offset up to which a queue is known to reach, without a look at its files."""
        return self._queues.end_of(topic, queue_id)

    def looks_at_ends(self) -> Iterator[Callable[[], bool]]:
        """Yield what workers do to find out whether the files of all queues are whole: False is a reason to mend."""
        return self._short.looks(self._queues.recorded)

    def mend_short_queues(self, *names: tuple[str, int]) -> None:
        """Make queues anew whose files were removed or cut: these, and all that lack something and aren't in use.

        It takes as long as reading the log, and nothing else happens meanwhile. Raises: OSError, StorageError.
        """
        rebuilt = self._short.rebuild(self._short.find_all(self._queues.recorded, names), self._deleted_topics)
        for (topic, queue_id), end in rebuilt.ends.items():
            reason = f"its files lacked entries that they had; {rebuilt.lost.get((topic, queue_id), 0)} are lost"
            self.findings.rebuilt(Finding(REBUILT_QUEUE, -1, reason, topic, queue_id, end))

    def delete_queues(self, *topics: str) -> None:
        """Remove the queues of topics; created again they begin with offset 0. Their records stay in the log.

        Raises: NotForGood (they are gone, but may come back after a loss of power), StorageError (nothing happened).
        """
        self._early_arrivals |= self.commit()
        deleted_topics = {**self._deleted_topics, **dict.fromkeys(topics, self.log.end_position)}
        named = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
        trouble: Exception | None = None
        try:
            self._state.write_deleted_topics(deleted_topics)
        except NotForGood as error:
            trouble = error  # In the old queues a start would take for deleted what is sent from now on.
        except OSError as error:
            raise StorageError(f"the queues of {named} can't be removed: {error}; they are as they were") from error
        self._deleted_topics = deleted_topics
        for topic in topics:
            try:
                self._queues.delete(topic)
            except OSError as error:
                trouble = error  # A start removes what is left of them.
        if trouble is not None:
            raise NotForGood(f"the queues of {named} could not be removed for good: {trouble}; try again") from trouble

    @property
    def deletions(self) -> dict[str, int]:
        """Where the log ended when topics were deleted, of those that have records in it."""
        return self._deleted_topics

    def _deleted_below(self, topic: str) -> int:
        """Return up to where records of a topic belong to nobody: it was deleted then."""
        return self._deleted_topics.get(topic, 0)

    def topics(self) -> list[str]:
        """Return the topics that have queues, sorted."""
        return self._queues.topics()

    @property
    def strays(self) -> list[str]:
        """What lies among the queues' files and is none of ours, as far as somebody came across it."""
        return list(self._queues.strays)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have or had a message, sorted. Raises: OSError."""
        return self._queues.queue_ids(topic)

    # --- appending: `append` or `put`, then

    def put(
        self, record: NewRecord, stored_ms: MessageMs, on_stored: OnStored | None = None, context: Any = None
    ) -> int:
        """`append` for everybody who isn't on the hot path. Raises: as that."""
        if record.prepared_position:
            return self._burst.put(record, stored_ms, on_stored, context)  # It isn't plain, whatever else it is.
        return self._burst.append(
            record.queue, record.born_ms, record.sys_flag, record.flag, record.reconsume_times,
            record.prepared_position, record.born_host, record.properties, record.body, record.tags_code,
            stored_ms, on_stored, context, record.wait_flush,
        )  # fmt: skip

    @property
    def room(self) -> tuple[int, int, int]:
        """Where the next record begins, where records have to end for now, and how large one may be."""
        return self._burst.room

    def commit(self) -> dict[Queue, int]:
        """Write the burst, make it visible, settle its appends; return the queues that got messages, from which offset.

        If it can't be written, nothing of it has happened, all its appends are settled as FAILED (`failure` says why)
        and the next burst may succeed. Never raises.
        """
        self.burst_number += 1
        arrivals = self._burst.commit()
        if self._early_arrivals:
            arrivals = {**arrivals, **self._early_arrivals}
            self._early_arrivals = {}
            arrivals = {queue: offset for queue, offset in arrivals.items() if not queue.deleted}
        return arrivals

    @property
    def failure(self) -> StorageError | None:
        """Why the last burst that failed did so."""
        return self._burst.failure

    @property
    def last_stored_ms(self) -> MessageMs:
        """The stored time of the newest record; message time must not be set before it."""
        return self._burst.last_stored_ms

    def refuse(self, reason: StorageError | None, cause: str = "disk full") -> None:
        """Let every append raise that from now on; with None, take appends again unless there is another cause."""
        self._burst.refuse(cause, reason)

    @property
    def refusal(self) -> StorageError | None:
        """Why no append is taken now; None when they are."""
        return self._burst.refusal

    def use_flusher(self, on_written: Callable[[], None], wait_for_sync: WaitForSync) -> None:
        """Tell `on_written` after each burst; with SYNC_FLUSH leave what waits for the disk to `wait_for_sync`."""
        self._settling.use_flusher(on_written, wait_for_sync)

    def forget_flusher(self) -> None:
        """Sync in `commit` again, where an append waits for it."""
        self._settling.forget_flusher()

    # --- reading

    @property
    def min_position(self) -> int:
        """Where the oldest record lies in the log."""
        return self.log.min_position

    @property
    def max_position(self) -> int:
        """Where the log ends."""
        return self.log.end_position

    @property
    def synced_position(self) -> int:
        """How far the log survives the machine."""
        return self.log.synced_position

    @property
    def oldest_stored_ms(self) -> MessageMs | None:
        """When the oldest record was stored; None of an empty log."""
        return self.log.first_stored_ms(self.log.min_position)

    def read(
        self,
        queue: Queue,
        offset: int,
        messages_max: int = PULL_MESSAGES_MAX,
        bytes_max: int = PULL_BYTES_MAX,
        wanted: Callable[[int], bool] | None = None,
    ) -> ReadResult:
        """Return where messages from `offset` on are whose tags code is `wanted`, one at least.

        What is found is whole: a damaged message is passed over. Raises: StorageError.
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
            f"queue {queue.queue_id} of {queue.topic} can't be read from offset {offset} on: what is stored there is "
            "neither whole nor to be mended; restart the broker, which looks at all of it"
        )

    def records(self, found: ReadResult) -> list[bytes]:
        """Return what a read found; if all of it lies side by side, in one slice. Raises: StorageError, OSError."""
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
        """Return up to `count` entries: where records are, and their tags codes. Raises: StorageError.

        Of a message whose record is damaged it is what there is, perhaps zeros.
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
        """`entries` for who checks them against the records, as far as the queue has them. Raises: StorageError."""
        try:
            return queue.entries(offset, count)
        except OSError as error:
            raise StorageError(f"queue {queue.queue_id} of {queue.topic} can't be read: {error}") from error

    def unchecked_records(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the records at these (position, size), for who checks them, in slices of what lies side by side.

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
        """Return what the log has from a record on, up to the end of its segment. Raises: StorageError, OSError."""
        segment = self.log.segments.at(log_position)
        if segment is None:
            raise StorageError(f"the commit log has no segment for position {log_position}: a file of it was removed")
        end = min(segment.end, self.log.end_position, log_position + bytes_max)
        return self.log.read_unmapped(log_position, end - log_position)

    def next_record(self, log_position: int) -> int:
        """Return where the next whole record begins, behind a damaged place; else the log's end. Raises: OSError."""
        found = next_whole(self.log.segments, log_position, self.log.end_position)
        return self.log.end_position if found is None else found

    def record_at(self, log_position: int) -> bytes | None:
        """Return the whole record that begins at a position, None when none does or it is damaged. Raises: OSError."""
        try:
            return self.record_now(log_position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None

    def record_now(self, log_position: int) -> bytes | None:
        """As `record_at`, for who can come again later. Raises: OSError, also when it lies in a bad sector."""
        return self.log.record_at(log_position)

    def records_from(self, log_position: int) -> Iterator[tuple[int, bytes]]:
        """Walk over (position, record) of the log from the beginning of a record on."""
        return self.log.records_from(log_position)

    def stored_ms_of(self, queue: Queue, offset: int) -> MessageMs | None:
        """Return when a message was stored; None when there is none at that offset. Raises: StorageError."""
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        entries = self.entries(queue, offset, 1)
        record = self.record_at(entries[0].log_position) if entries and entries[0].record_bytes else None
        return None if record is None else MessageMs(peek_record(record).stored_ms)

    def search_offset(self, queue: Queue, message_ms: MessageMs, boundary: Boundary) -> int:
        """Return the offset that belongs to a stored time. Raises: StorageError."""
        return search_offset(
            queue.min_offset,
            queue.max_offset,
            message_ms,
            boundary,
            lambda offset: self._next_stored(queue, offset),
        )

    def _next_stored(self, queue: Queue, offset: int) -> tuple[int, MessageMs] | None:
        """Return a message from an offset on that can be read, and when it was stored; None when none was found."""
        for at in probes(offset, queue.max_offset, READ_ENTRIES_MAX):
            stored_ms = self.stored_ms_of(queue, at)
            if stored_ms is not None:
                return at, stored_ms
        return None

    # --- retention

    def oldest_segment(self) -> OldSegment | None:
        """Return the first segment of the log; None when it is the one that is written to. Raises: StorageError."""
        try:
            return self.log.oldest_segment()
        except OSError as error:
            raise StorageError(f"the age of the log in {self._folder} can't be read: {error}") from error

    def remove_segments_before(self, log_position: int) -> int:
        """Remove the segments that end at or below a position, and return how many. The last one stays.

        The queues' min offsets move with it. What the checkpoint doesn't cover yet stays as well.

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
                self._note_log_start(start)  # There is room now.
            self._queues.remove_old_files()
        except OSError as error:
            raise StorageError(f"old segments of {self._folder} could not be removed: {error}") from error
        return removed

    def _note_log_start(self, position: int) -> bool:
        """Note where the log begins; return whether there was room for it on the disk. Raises: OSError."""
        try:
            self._state.write_log_start(position)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True

    # --- bringing things to the disk

    def flush_steps(self) -> Generator[FlushStep]:
        """Yield the blocking steps that make everything written so far safe; see flush_round.py."""
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
        """Make everything safe at once. Blocks. Raises: OSError."""
        with closing(self.flush_steps()) as steps:
            for step in steps:
                step.carry_out()
