"""Store messages that wait for a time of their own, deliver them, recall them. RocketMQ: TimerMessageStore.

A delivery is one burst of up to `SLICE_MAX` messages; all of it is stored, or nothing. Delivered records and recalls
carry marks, so the log itself shows what is done (recovery.py). A recall counts as soon as its record is in the burst:
a recalled message is never delivered, and a delivered one can't be recalled. A message is in the index from the write
on; only the response to its sender waits for the disk and for slaves.

Different from RocketMQ
- Delivery is exact to the millisecond, and in the order of the due times.
- A recall also works if the message is overdue after a start, as long as it still waits.
- A recall that finds no message stores nothing, so a forged one does no harm.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from staticfire.broker.clock.due_loop import DueLoop
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.stored_form import real_place
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import NoFolderName, OnStored, PutOutcome
from staticfire.broker.timers import forms
from staticfire.broker.timers.reading import WaitingRecords
from staticfire.broker.timers.recovery import TimerRecovery
from staticfire.broker.timers.waiting import TimerIndex
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.properties import REAL_TOPIC, UNIQ_KEY, text_property
from staticfire.protocol.recall_handle import RecallHandle, encode_handle
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.sys_flag import TransactionKind, enters_consume_queue, transaction_kind
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")

# The number of messages delivered before other tasks run again.
SLICE_MAX = 128
RETRY_MS = 100
# So many messages that can't be delivered now don't delay the messages after them.
KEPT_MAX = 4_096
# The number of entries read at once for `waiting_places`.
READ_ENTRIES = 64
SAVE_MS = 10_000
# Progress is also saved after this many bytes of log: a start after a kill must read them.
SAVE_BYTES = 64 * 1024 * 1024

Due = tuple[int, int, int]
"""Due time, offset, hash."""


class TimerService:
    """The messages with a delivery time of one broker."""

    def __init__(self, state: BrokerState, config_files: ConfigFiles, settle: Callable[[], None]) -> None:
        """`settle` writes the burst."""
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._settle = settle
        self._index = TimerIndex()
        self._records = WaitingRecords(state.store)
        self._recovery = TimerRecovery(config_files, state.store, self._index)
        self._changes = 0
        self._saved_changes = 0
        self._kept = 0
        """How many due messages of the last slice could not be delivered."""
        self._tasks: list[asyncio.Task[None]] = []
        self._due = DueLoop(state.clock, self.next_due_ms, self.deliver_until, "timers_not_delivered", RETRY_MS)

    def __len__(self) -> int:
        """The number of waiting messages."""
        return len(self._index)

    @property
    def _queue(self) -> Queue:
        return self._records.queue

    @property
    def delay_max_ms(self) -> int:
        """The largest allowed time until a delivery."""
        return self._state.settings.timer_max_delay_sec * 1000

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Find the waiting messages. Raises: StorageError."""
        count = self._recovery.restore()
        if count:
            log.info("timers_wait", count=count, next_due_ms=self._index.next_due_ms())

    def start(self, spawn: Spawn, pause: Pause) -> None:
        """Start to deliver, overdue messages first."""
        self._tasks = [spawn(self._due.run(), "timers"), spawn(self._save_loop(pause), "timers_saved")]

    async def stop(self) -> None:
        """Stop delivering."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def forget(self) -> None:
        """Reset everything, because the queue was deleted."""
        self._index.forget()
        self._recovery.save()
        self._due.wake()

    # -- waiting messages ----------------------------------------------------------------------------------------

    def waits(self, record: NewRecord, stored_ms: MessageMs) -> forms.Timed | None:
        """Return how a message waits; None if it doesn't. Raises: BrokerAnswer."""
        if b"TIMER_DEL" not in record.properties or not enters_consume_queue(record.sys_flag):
            return None
        place = record.queue.topic, record.queue.queue_id
        # The delivery time of a half message was accepted when it was sent. If timerMaxDelaySec is smaller now, its
        # commit isn't refused, because the message would be lost. RocketMQ checks the time only then, too.
        is_commit = transaction_kind(record.sys_flag) is TransactionKind.COMMIT
        return forms.timed(record.properties, place, stored_ms, INT64_MAX if is_commit else self.delay_max_ms)

    def put(
        self, record: NewRecord, timed: forms.Timed, stored_ms: MessageMs, on_stored: OnStored, context: Any
    ) -> str | None:
        """Store a waiting message; return its recall handle, or None if it has none. Raises: StorageError."""
        self._store.put(_waiting(record, timed, self._queue), stored_ms, on_stored, context)
        self._store.when_written(self._written, timed)
        topic = record.queue.topic
        if is_retry_topic(topic):
            return None
        broker_name = self._state.settings.broker_name
        return encode_handle(RecallHandle(topic, broker_name, timed.out_ms + 1, timed.unique_id))

    def _written(self, timed: Any, queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        if outcome is not PutOutcome.FAILED:
            self._index.add(timed.due_ms, queue_offset, timed.entry_code & forms.HASH_MASK)
            self._changes += 1
            self._due.expect(timed.due_ms)

    def waiting_places(self) -> Iterator[tuple[int, int]]:
        """Yield due time and log position of each waiting message, in the order of sending. Raises: StorageError."""
        offset, queue, done = self._index.done.first_missing(), self._queue, self._index.done
        offset = max(offset, queue.min_offset)
        while offset < queue.max_offset:
            entries = self._store.unchecked_entries(queue, offset, READ_ENTRIES)
            if not entries:
                return
            for entry in entries:
                if offset not in done:
                    yield entry.tags_code >> forms.HASH_BITS, entry.log_position
                offset += 1

    def first_waiting_position(self) -> int | None:
        """Return the log position of the oldest waiting message; None if none waits. Raises: StorageError."""
        offset, queue = self._index.done.first_missing(), self._queue
        if offset >= queue.max_offset:
            return None
        entries = self._store.entries(queue, offset, 1)
        return entries[0].log_position if entries else None

    def keep_within_bounds(self) -> int:
        """Drop waiting messages that retention has removed; return their number."""
        done, first = self._index.done, self._queue.min_offset
        lost = sum(1 for offset in range(done.first_missing(), first) if offset not in done)
        done.add_below(first)
        return lost

    # -- recall --------------------------------------------------------------------------------------------------

    def find(self, handle: RecallHandle) -> list[Due]:
        """Return the waiting messages that a handle refers to. Raises: StorageError (one can't be read now)."""
        out_ms, hash_bits = handle.timestamp_ms - 1, forms.hash_of(handle.topic, handle.unique_id)
        found: list[Due] = []
        for due_ms, offset in self._index.candidates(out_ms, hash_bits):
            try:
                properties = self._records.one(offset).properties
            except ProtocolError:
                continue  # A damaged message is never delivered, so there is nothing to recall.
            except OSError as error:
                raise StorageError(f"a message that may be the one to recall can't be read: {error}") from error
            named = text_property(properties, UNIQ_KEY), text_property(properties, REAL_TOPIC)
            if named == (handle.unique_id, handle.topic):
                found.append((due_ms, offset, hash_bits))
        return found

    def recall(self, one: Due, handle: RecallHandle, group: str, on_stored: OnStored, context: Any) -> None:
        """Recall a message that `find` has returned. Raises: StorageError."""
        now_ms, offset = self._clock.message_ms(), one[1]
        times = handle.timestamp_ms, now_ms
        record = forms.recalled(offset, handle.topic, handle.unique_id, group, times, self._queue)
        self._store.put(record, now_ms, on_stored, context)
        self._store.when_written(self._recall_written, one)
        self._index.done.add(offset)

    def _recall_written(self, one: Any, queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        if outcome is PutOutcome.FAILED:
            due_ms, offset, hash_bits = one
            self._index.done.discard(offset)
            if (due_ms, offset) not in self._index.candidates(forms.out_of(due_ms), hash_bits):
                self._put_back([one])  # Its due time passed meanwhile, and it was skipped.
        else:
            self._index.done.add(queue_offset)
            self._changes += 1

    # -- delivering ----------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next message is due; None if none waits. It may be overdue."""
        return self._index.next_due_ms()

    async def deliver_until(self, message_ms: MessageMs) -> int:
        """Deliver everything due at that time, and return the number.

        Set the clock first: records get the clock's time.

        Raises: StorageError (nothing can be stored now, or some messages can't; they are retried).
        """
        delivered = 0
        while due := self._index.take_due(message_ms, SLICE_MAX + min(self._kept, KEPT_MAX)):
            delivered += self._deliver(due)
            await asyncio.sleep(0)
        return delivered

    def _deliver(self, due: list[Due]) -> int:
        """Store these messages in their real queues, in one burst; return the number.

        Raises: StorageError (some or all of them could not be stored, and are retried).
        """
        if self._store.refusal is not None:
            self._put_back(due)
            # The messages wait until there is room. None of them is skipped.
            raise StorageError(str(self._store.refusal))
        slices = _Slice()
        trouble: OSError | StorageError | None = None
        done, kept = list[int](), list[Due]()
        records = self._records.many([offset for _, offset, _ in due])
        for index, (one, record) in enumerate(zip(due, records or repeat(None), strict=False)):
            try:
                waited = record or self._records.one(one[1])
            except (OSError, StorageError) as error:
                # It can't be read now. This message and the later ones are retried.
                trouble = error
                kept += due[index:]
                break
            except ProtocolError as error:
                _skip(one, error)
                done.append(one[1])
                continue
            try:
                self._put_delivery(waited, slices)
            except (ProtocolError, NoFolderName) as error:
                _skip(one, error)
            except (StorageError, OSError) as error:
                # It can't be stored now, for example because its queue can't be loaded. It is retried.
                trouble = trouble or error
                kept.append(one)
                continue
            done.append(one[1])
        self._settle()
        self._changes += 1
        if slices.failed:
            self._put_back(due)
            raise self._store.failure or StorageError("due messages could not be stored")
        for offset in done:
            self._index.done.add(offset)
        self._kept = len(kept)
        if trouble is not None:
            self._put_back(kept)
            raise StorageError(f"a due message could not be delivered: {trouble}") from trouble
        return slices.count

    def _put_delivery(self, waited: StoredRecord, slices: "_Slice") -> None:
        """Add a message to the burst.

        Raises: ProtocolError, NoFolderName (it can never be delivered), StorageError, OSError (it can't be delivered
        now).
        """
        place = real_place(waited.properties)
        if place is None:
            raise ProtocolError("its target topic and queue are missing")
        now_ms = self._clock.message_ms()
        delivered = forms.delivered(waited, self._store.queue(*place), now_ms)
        # A burst is written completely or not at all, so it is enough to watch one of its messages.
        self._store.put(delivered, now_ms, None if slices.count else slices.settled)
        slices.count += 1

    def _put_back(self, due: list[Due]) -> None:
        for due_ms, offset, hash_bits in due:
            self._index.add(due_ms, offset, hash_bits)

    # -- progress ------------------------------------------------------------------------------------------------

    async def _save_loop(self, pause: Pause) -> None:
        while True:
            await pause(SAVE_MS)
            has_grown = self._store.max_position - self._recovery.saved.log_position > SAVE_BYTES
            if self._changes != self._saved_changes or (has_grown and self._index.next_due_ms() is not None):
                self._saved_changes = self._changes
                self._recovery.save()


def _skip(due: Due, error: Exception) -> None:
    log.error("timer_skipped", offset=due[1], due_ms=due[0], error=str(error))


class _Slice:
    """Some messages in the burst, and the outcome."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = False

    def settled(self, _context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        """Save the outcome of the burst."""
        self.failed = outcome is PutOutcome.FAILED


def _waiting(record: NewRecord, timed: forms.Timed, queue: Queue) -> NewRecord:
    return NewRecord(
        queue, timed.properties, timed.entry_code, record.body, record.born_ms, record.born_host, record.sys_flag,
        record.flag, record.reconsume_times, record.prepared_position, record.wait_flush,
    )  # fmt: skip
