"""Half messages: stored, ended, moved away, restored at start. RocketMQ: TransactionalMessageServiceImpl.

The end of a half message is one burst: its final form, and after all of these the record of the ends. So after a kill
in between the half message is still open, and its producer is checked again: the message may be delivered twice, but is
never lost.

A half message becomes open, or is closed, when its record gets visible in its queue; only the responses wait for the
disk and for slaves. So the open half messages always fit the ends of the queues, with which they are saved
(recovery.py).

Different from RocketMQ
- An ended half message isn't ended again: a second commit stores nothing (`repeatEndedCommits`: as in RocketMQ).
- A half message with a delay (DELAY) waits after its commit; RocketMQ loses it.
- A check stores nothing, and the first check is sent as early as allowed.
- A check whose result could not be stored isn't counted: a producer that commits while the disk is full doesn't have
  its message that was moved away.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import filterfalse
from typing import Any

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.sends.intake import Intake
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.topics import TopicTable
from staticfire.broker.transactions import forms
from staticfire.broker.transactions.checks import HalfMessageChecks
from staticfire.broker.transactions.ending import Ending
from staticfire.broker.transactions.expired_halves import ExpiredHalves
from staticfire.broker.transactions.open_halves import RECENT_BODY_BYTES_MAX, OpenHalf, OpenHalves, RecentHalves
from staticfire.broker.transactions.recovery import TransactionRecovery
from staticfire.broker.transactions.runs import TransactionRuns
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.properties import UNIQ_KEY, text_property
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")


class TransactionService:
    """The transactions of one broker."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        producers: ProducerManager,
        config_files: ConfigFiles,
        intake: Intake,
        settle: Callable[[], None],
    ) -> None:
        """`settle` writes the burst."""
        self._state = state
        self._topics = topics
        self._store = state.store
        self._intake = intake
        self._open = OpenHalves()
        self._recent = RecentHalves()
        self._expired = ExpiredHalves(state.store)
        self._checks = HalfMessageChecks(state, producers, self._open, self._half_now, self._set_aside, settle)
        self._ending = Ending(state.store, state.clock, self._ended, self._checks.not_ended)
        self._recovery = TransactionRecovery(config_files, state.store, self._open, self._expired)
        self._tasks: list[asyncio.Task[None]] = []
        self.runs = TransactionRuns(state, self._open, self._recent, self._ending, self._checks.expect)
        """Handles transactions that come in runs of sends."""

    def __len__(self) -> int:
        """The number of open half messages."""
        return len(self._open)

    @property
    def _halves(self) -> Queue:
        return self._store.queue(HALF_TOPIC, 0)

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Find the open half messages. Raises: StorageError."""
        for half, checks in self._recovery.restore():
            self._begin(half.queue_offset, half.log_position, half.stored_ms, half.properties, checks)
        self._checks.restored()
        if len(self._open):
            log.info("transactions_open", count=len(self._open))

    def start(self, spawn: Spawn, pause: Pause) -> None:
        """Start to check."""
        self._tasks = [
            spawn(self._checks.run(), "transactions"),
            spawn(self._recovery.loop(pause), "transactions_saved"),
        ]

    async def stop(self) -> None:
        """Stop checking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._recovery.save()

    def forget(self) -> None:
        """Reset everything, because the queues were deleted."""
        self._open.forget()
        self._recent.clear()
        self._ending.forget()
        self._expired.forget()
        self._checks.forget()
        self._recovery.forget()

    def flush(self) -> None:
        """Add the ends of half messages to the burst."""
        if self._ending.has_work:
            self._ending.flush()

    # -- checks --------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next check is due."""
        return self._checks.next_due_ms()

    async def check_until(self, message_ms: MessageMs) -> int:
        """Check everything due at that time; return the number. Raises: StorageError."""
        return await self._checks.check_until(message_ms)

    def answered(self, offset: int) -> None:
        """Note that a producer has responded to a check, whatever the result."""
        self._checks.answered(offset)

    def works_until_ms(self) -> MessageMs | None:
        """Return when the next check goes to a connected producer, which needs real time for its work.

        None if none does.
        """
        return self._checks.works_until_ms()

    def unrest(self) -> list[Unrest]:
        """Return checks without a response from connected producers, and groups that are not back after a restart."""
        return self._checks.unrest()

    # -- the two halves ------------------------------------------------------------------------------------------

    def begin(self, record: NewRecord, unique_id: str, on_stored: OnStored, context: Any) -> None:
        """Store a message as a half message. Raises: BrokerAnswer, StorageError, ProtocolError."""
        half, stored_ms = forms.half_of(record, unique_id, self._halves), self._state.clock.message_ms()
        self._intake.check_time(half, stored_ms)
        self._store.put(half, stored_ms, on_stored, context)
        self._store.when_written(self._half_written, (half, stored_ms))

    def _half_written(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        if outcome is PutOutcome.FAILED:
            return
        half, stored_ms = context
        self._begin(queue_offset, log_position, stored_ms, half.properties)
        if len(half.body) <= RECENT_BODY_BYTES_MAX:
            self._recent.add(log_position, forms.stored_half(half, queue_offset, log_position, stored_ms))

    def _begin(self, offset: int, log_position: int, stored_ms: int, properties: bytes, checks: int = 0) -> None:
        settings = self._state.settings
        first_ms = stored_ms + forms.wait_ms(properties, settings.transaction_time_out)
        due_ms = first_ms + checks * settings.transaction_check_interval
        self._open.begin(offset, OpenHalf(log_position, forms.producer_group(properties), due_ms, checks))
        self._checks.expect(due_ms)

    def half_at(self, log_position: int) -> StoredRecord | None:
        """Return the half message at a log position; None if there is none that can be read."""
        try:
            return self._half_now(log_position)
        except OSError:
            return None

    def _half_now(self, log_position: int) -> StoredRecord | None:
        """Return the half message at a log position; None if there is none. Raises: OSError (it can't be read now)."""
        recent = self._recent.take(log_position)
        if recent is not None:
            return recent
        try:
            data = self._store.record_now(log_position)
            record = None if data is None else decode_record(data)
        except (StorageError, ProtocolError):
            return None
        return record if record is not None and record.topic == HALF_TOPIC else None

    def waiting_places(self) -> Iterator[tuple[int, int]]:
        """Yield the time of the next check and the log position of each open half message."""
        for log_position, _, due_ms, _ in list(self._open.halves.values()):
            yield due_ms, log_position

    def first_waiting_position(self) -> int | None:
        """Return the log position of the oldest open half message; None if there is none."""
        return self._open.first_position()

    def is_open(self, half: StoredRecord) -> bool:
        """Tell whether a half message has not been ended."""
        return half.queue_offset in self._open.halves and half.queue_offset not in self._ending.offsets

    def was_set_aside(self, half: StoredRecord) -> bool:
        """Return whether a half message was moved, and not committed since."""
        return half.queue_offset not in self._ending.offsets and self._expired.has(half.queue_offset, half.properties)

    def end(self, half: StoredRecord, is_commit: bool, on_stored: OnStored, context: Any) -> None:
        """Commit a half message, or roll it back. Raises: BrokerAnswer, StorageError, ProtocolError."""
        if is_commit:
            topic, queue_id = forms.place_of(half)
            try:
                self._intake.put(forms.final_of(half, self._store.queue(topic, queue_id)), on_stored, context)
            except (StorageError, OSError):
                self._checks.not_ended([half.queue_offset])
                raise
            self._ending.note(half.queue_offset)
        else:
            self._ending.note(half.queue_offset, on_stored, context)

    def _ended(self, offsets: list[int]) -> None:
        is_open = self._open.halves.__contains__
        self._expired.committed(filterfalse(is_open, offsets))
        self._open.end_all(offsets)
        self._checks.ended(offsets)

    def _set_aside(self, half: StoredRecord, checks: int) -> None:
        """Store a half message in the topic for operators; if that fails, it is still open. Raises: StorageError."""
        if self._topics.get(CHECK_MAX_TIME_TOPIC) is None:
            self._topics.put(TopicConfig(CHECK_MAX_TIME_TOPIC, 1, 1, READ_WRITE))
        aside = forms.set_aside(half, self._store.queue(CHECK_MAX_TIME_TOPIC, 0))
        self._store.put(aside, self._state.clock.message_ms(), self._aside_stored, (half, checks))
        self._ending.note(half.queue_offset)

    def _aside_stored(self, context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        half, checks = context
        if outcome is PutOutcome.FAILED:
            return
        self._expired.add(half.properties)
        log.warning(
            "transaction_set_aside",
            group=forms.producer_group(half.properties),
            topic=forms.place_of(half)[0],
            message_id=text_property(half.properties, UNIQ_KEY),
            checks=checks,
            way_out=f"no producer has ended it; it was moved to {CHECK_MAX_TIME_TOPIC}",
        )
