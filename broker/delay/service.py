"""Delivers delayed messages: on time, in order, once. RocketMQ: ScheduleMessageService.

A loop sleeps until the next message is due. Then it stores due messages again in their real queues, a slice at a time,
so that sends aren't blocked. A slice is one burst: it is stored completely, or not at all and retried.

Progress: a delivered record carries a mark (stored_form.py) with the level and offset of the delayed message.
delayOffset.json contains the progress of the levels at a certain log position; it is written only after the disk has
the log up to there. After that position, the marks show the rest. So neither a kill nor a power loss causes a message
to be delivered twice or not at all.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from msgspec.structs import replace

from staticfire.broker.clock.due_loop import DueLoop, wait_for
from staticfire.broker.clock.message_clock import MessageClock
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.delivery import Blocked, Delivery
from staticfire.broker.delay.level_history import LevelHistory
from staticfire.broker.delay.queue import DelayQueue, DueEntry
from staticfire.broker.delay.stored_form import Mark, delayed, read_mark
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import Entry
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.delay_levels import level_of_queue, queue_of_level
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.record import peek_prepared_position
from staticfire.protocol.sys_flag import enters_consume_queue
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("broker")

FILE = "delayOffset.json"
# The number of messages delivered before other tasks run again: about a millisecond.
SLICE_MAX = 256
RETRY_MS = 100
# The number of entries read at once for `waiting_places`.
READ_ENTRIES = 64
SAVE_MS = 10_000
# Progress is also saved after this many bytes of log: a start after a kill must read them.
SAVE_BYTES = 16 * 1024 * 1024


class DelayService:
    """The delayed messages of one broker."""

    def __init__(
        self,
        levels: LevelHistory,
        store: MessageStore,
        clock: MessageClock,
        config_files: ConfigFiles,
        settle: Callable[[], None],
    ) -> None:
        """`settle` writes the burst and settles its appends."""
        self.levels = levels.current
        self._stored_levels = _StoredLevels(store, levels.current.level_max)
        self.queue = DelayQueue(levels.current.delays_ms, self._stored_levels)
        self._store = store
        self._clock = clock
        self._config_files = config_files
        self._settle = settle
        self._save_now = asyncio.Event()
        self._delivery = Delivery(store, levels)
        self._is_restored = False
        self._saved = self.queue.snapshot(0)
        self._saved_version = -1
        self._saved_position = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._due = DueLoop(clock, self.next_due_ms, self.deliver_until, "delayed_messages_not_delivered", RETRY_MS)

    def __len__(self) -> int:
        """The number of waiting messages."""
        return sum(self.queue.waiting().values())

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self, queues: int) -> None:
        """Determine the progress of deliveries from delayOffset.json and the log after its position.

        `queues`: the number of queues of the schedule topic, perhaps larger than the current number of levels. Raises:
        StorageError (the file can't be read).
        """
        self._stored_levels.queues = max(queues, self.levels.level_max)
        words = "waiting and delivered messages are read from the log"
        self._config_files.restore(FILE, self._snapshot, self._restore, after_log=True, from_log=words)
        is_wrong = self._forget_deleted() or self._saved_position > self._store.max_position
        impossible = self.queue.forget_impossible()
        if impossible:
            words = "the progress of levels was beyond the end of the waiting messages; it is read from the log"
            log.error("delivery_progress_wrong", file=FILE, levels=impossible, reason=words)
            self._saved_position = min([self._saved_position, *_first_positions(self._store, impossible)])
        self.queue.keep_within_bounds()
        self._saved_position = min(self._saved_position, self._store.max_position)
        # The log has deliveries of levels that are gone, too. If they weren't counted, and progress were saved after
        # them, they would be repeated when such a level exists again.
        if self._stored_levels.waiting(self.queue.offset):
            self._take_in_marks()
            self.queue.keep_within_bounds()
        self._is_restored = True
        if is_wrong or impossible:
            # Otherwise, after a kill, the file would count messages that are stored and delivered from now on as
            # already delivered.
            self._take_snapshot()
            self._config_files.changed(FILE)
        if waiting := self.queue.waiting():
            log.info("delayed_messages_wait", by_level=waiting)
        for level, count in self._stored_levels.waiting(self.queue.offset).items():
            if level > self.levels.level_max:
                words = "messageDelayLevel has no such level now; with a longer one they are delivered"
                log.warning("delayed_messages_stranded", level=level, messages=count, reason=words)

    def _take_in_marks(self) -> None:
        """Count the deliveries in the log after the saved position, for each level up to a missing one.

        A hole in the part that no fsync had covered may contain a delivery whose successor is still there. The missing
        one is delivered again.
        """
        incomplete: set[int] = set()  # Never iterated.
        for log_position, record in self._store.records_from(self._saved_position):
            mark = read_mark(peek_prepared_position(record))
            if mark is None or mark.level == 0 or self._stored_levels.is_newer(mark, log_position):
                continue
            if mark.level in incomplete:
                self._delivery.is_delivered(mark)
            elif self._is_one_missing_before(mark):
                incomplete.add(mark.level)
                self._delivery.is_delivered(mark)
                reason = "the log has lost a delivery, but has later ones: the missing messages are delivered again"
                log.warning(
                    "deliveries_lost", level=mark.level, from_offset=self.queue.offset(mark.level), reason=reason
                )
            else:
                self.queue.take_in(mark)

    def _is_one_missing_before(self, mark: Mark) -> bool:
        """Tell whether a message before the marked one exists without a delivery; damaged ones were skipped."""
        waiting = self._store.queue(SCHEDULE_TOPIC, queue_of_level(mark.level))
        first = max(self.queue.offset(mark.level), waiting.min_offset)
        return any(
            self._store.record_at(entry.log_position) is not None
            for offset in range(first, min(mark.offset, waiting.max_offset))
            for entry in self._store.entries(waiting, offset, 1)
            if entry.record_bytes
        )

    def _forget_deleted(self) -> bool:
        """Forget the progress of queues that were deleted after it was saved; return whether there was any."""
        deleted_at = self._store.deletions.get(SCHEDULE_TOPIC, -1)
        if self._saved_position > deleted_at:
            return False
        self.queue.forget()
        self._saved_position = deleted_at
        return True

    def start(self, spawn: Spawn) -> None:
        """Start to deliver, overdue messages first."""
        self._tasks = [spawn(self._due.run(), "delays"), spawn(self._save_loop(), "delay_progress")]

    async def stop(self) -> None:
        """Stop delivering; `ConfigFiles` saves the progress later."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- requests of other parts ---------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next message is due; None if none waits. It may be overdue."""
        return self.queue.next_due_ms(self._clock.message_ms())

    def waiting_places(self) -> Iterator[tuple[int, int]]:
        """Yield due time and log position of each waiting message; one of each level in turn, from its head on."""
        levels = [self._waiting_of(level) for level in range(1, self.levels.level_max + 1)]
        for entries in zip_longest(*levels):
            for entry in entries:
                if entry is not None:
                    yield entry.tags_code, entry.log_position

    def _waiting_of(self, level: int) -> Iterator[Entry]:
        offset, (first, end) = self.queue.offset(level), self._stored_levels.bounds(level)
        offset = max(offset, first)
        while offset < end:
            entries = self._stored_levels.entries(level, offset, READ_ENTRIES)
            if not entries:
                return
            yield from entries
            offset += len(entries)

    async def deliver_until(self, message_ms: MessageMs) -> int:
        """Deliver everything due at that time, and return the number.

        Set the clock first: records get the clock's time.

        Raises: StorageError (nothing can be stored now, or the messages of some levels can't).
        """
        delivered, blocked = 0, Blocked()
        while due := self.queue.due(message_ms, SLICE_MAX, blocked):
            delivered += self._deliver(due, message_ms, blocked)
            await asyncio.sleep(0)
        for level, trouble in blocked.items():
            raise StorageError(f"a delayed message of level {level} could not be stored: {trouble}") from trouble
        return delivered

    def waits(self, record: NewRecord, stored_ms: MessageMs) -> NewRecord | None:
        """Return the record in the form and queue in which it waits; None if it doesn't wait. Store it in this tick.

        Raises: BrokerAnswer (its level is no number, or its properties get too long), StorageError.
        """
        if not enters_consume_queue(record.sys_flag):
            return None  # The message was prepared or rolled back: no consumer may see it.
        queue = record.queue
        form = delayed(record.properties, queue.topic, queue.queue_id, self.levels)
        if form is None:
            return None
        due_ms = MessageMs(stored_ms + self.levels.delay_ms(form.level))
        self._due.expect(due_ms)
        home = self._store.queue(SCHEDULE_TOPIC, queue_of_level(form.level))
        return replace(record, queue=home, properties=form.properties, tags_code=due_ms)

    def first_waiting_position(self) -> int | None:
        """Return the log position of the oldest waiting message; None if none waits. Raises: StorageError."""
        return self.queue.first_position()

    def keep_within_bounds(self) -> dict[int, int]:
        """Skip messages that retention has removed; return their number by level."""
        return self.queue.keep_within_bounds()

    def forget(self) -> None:
        """Reset everything, because the schedule topic's queues were deleted."""
        self.queue.forget()
        self._take_snapshot()
        self._config_files.changed(FILE)
        self._due.wake()

    # -- delivering ----------------------------------------------------------------------------------------------

    def _deliver(self, due: list[DueEntry], message_ms: MessageMs, blocked: Blocked) -> int:
        """Store these due messages in their real queues, in one burst; return the number.

        A level whose next message can't be stored now is added to `blocked`. Raises: StorageError (none of them could
        be stored, and they are retried).
        """
        if self._store.refusal is not None:
            # The messages wait until there is room. None of them is skipped.
            raise StorageError(str(self._store.refusal))
        records = self._delivery.read(due)
        if records is None and due:
            self._stored_levels.check(due)
            self.queue.read_anew()
            due = self.queue.due(message_ms, SLICE_MAX, blocked)
            records = self._delivery.read(due)
        part = self._delivery.put(due, records, self._clock.message_ms(), blocked)
        try:
            self._settle()
        finally:
            if not part.failed:
                for level, offset in part.last_offsets.items():
                    self.queue.delivered(level, offset)
        if part.failed:
            raise self._store.failure or StorageError("delayed messages could not be stored")
        if self._store.max_position - self._saved_position > SAVE_BYTES:
            self._save_now.set()
        return part.delivered

    # -- progress ------------------------------------------------------------------------------------------------

    async def _save_loop(self) -> None:
        while True:
            self._save_now.clear()
            await wait_for(self._save_now, SAVE_MS)
            position = self._store.max_position
            grown = position - self._saved_position > SAVE_BYTES and self._stored_levels.waiting(self.queue.offset)
            if self.queue.version == self._saved_version and not grown:
                continue
            self._take_snapshot()
            self._config_files.changed(FILE)

    def close(self) -> None:
        """Take the last snapshot for the final save."""
        if self._is_restored:
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        self._saved_position = self._store.max_position
        self._saved, self._saved_version = self.queue.snapshot(self._saved_position), self.queue.version

    def _snapshot(self) -> bytes:
        return self._saved

    def _restore(self, data: bytes) -> None:
        self._saved_position = self.queue.restore(data)
        self._saved, self._saved_version = data, self.queue.version


class _StoredLevels:
    """The levels' queues in the store."""

    def __init__(self, store: MessageStore, queues: int) -> None:
        self._store = store
        self.queues = queues
        """The number of queues, also of levels that no longer exist."""

    def waiting(self, offset_of: Callable[[int], int]) -> dict[int, int]:
        """Return the number of messages from each level's offset on, without empty levels."""
        bounds = {level: self.bounds(level) for level in map(level_of_queue, range(self.queues))}
        counts = {level: end - max(offset_of(level), first) for level, (first, end) in bounds.items()}
        return {level: count for level, count in counts.items() if count > 0}

    def end(self, level: int) -> int:
        return self._store.queue(SCHEDULE_TOPIC, queue_of_level(level)).max_offset

    def bounds(self, level: int) -> tuple[int, int]:
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
        return queue.min_offset, queue.max_offset

    def entries(self, level: int, offset: int, count: int) -> list[Entry]:
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
        found = self._store.unchecked_entries(queue, offset, count)
        if len(found) < min(count, queue.max_offset - offset):
            return self._store.entries(queue, offset, count)
        return found

    def head(self, level: int, offset: int) -> Entry | None:
        found = self._store.entries(self._store.queue(SCHEDULE_TOPIC, queue_of_level(level)), offset, 1)
        return found[0] if found else None

    def is_newer(self, mark: Mark, log_position: int) -> bool:
        """Tell whether the message at that offset was stored after its delivery: the log has lost the one delivered."""
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(mark.level))
        if not queue.min_offset <= mark.offset < queue.max_offset:
            return False
        entries = self._store.entries(queue, mark.offset, 1)
        return bool(entries) and entries[0].log_position > log_position

    def check(self, due: list[DueEntry]) -> None:
        """Let the store check these entries and repair wrong ones. Raises: StorageError."""
        for level in sorted({entry.level for entry in due}):
            offsets = [entry.offset for entry in due if entry.level == level]
            queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
            self._store.entries(queue, offsets[0], len(offsets))


def _first_positions(store: MessageStore, levels: Iterable[int]) -> list[int]:
    """Return the log position of each level's first message, if there is one.

    All deliveries of the level come later.
    """
    queues = [store.queue(SCHEDULE_TOPIC, queue_of_level(level)) for level in levels]
    waiting = [queue for queue in queues if queue.min_offset < queue.max_offset]
    return [entry.log_position for queue in waiting for entry in store.entries(queue, queue.min_offset, 1)]
