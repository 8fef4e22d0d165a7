"""Half messages: stored, ended, asked about, found again after a start. RocketMQ: TransactionalMessageServiceImpl.

The end of a half message is one burst: its final form, and behind all of these the record of what has ended. So a kill
in between leaves the half message open, and its producer is asked again: the message may come twice then, and is
never lost.

Different from RocketMQ
- What has been ended isn't ended again: a second commit stores nothing (`repeatEndedCommits`: as RocketMQ does it).
- A half message that waits (DELAY) waits after its commit; RocketMQ loses it.
- Nothing is stored anew for a question, and the first question comes as soon as it may.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from staticfire.broker.clock.due_loop import DueLoop
from staticfire.broker.sends.intake import Intake
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.transactions import forms
from staticfire.broker.transactions.aside import SetAside
from staticfire.broker.transactions.ending import Ending
from staticfire.broker.transactions.kept import KeptTransactions
from staticfire.broker.transactions.open_halves import RECENT_BODY_BYTES_MAX, OpenHalf, OpenHalves, RecentHalves
from staticfire.broker.transactions.runs import TransactionRuns
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import ConnectionLost, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.properties import UNIQ_KEY, text_property
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.requests.transactions import CheckTransaction
from staticfire.protocol.rocketmq_record import record_for
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.service import Pause, Spawn

log = logger("broker")

SLICE_MAX = 64
# Half messages asked about between two looks at the sockets.
RETRY_MS = 1_000
ANSWER_MS_MAX = 5_000
# So long an advance waits for the answer of a producer that was asked.
HOUR_MS = 3_600_000


class TransactionService:
    """The transactions of one broker."""

    def __init__(self, state: BrokerState, intake: Intake, settle: Callable[[], None]) -> None:
        """`settle` writes the burst."""
        self._state = state
        self._store = state.store
        self._intake = intake
        self._settle = settle
        self._open = OpenHalves()
        self._recent = RecentHalves()
        self.ending = Ending(state.store, state.clock, self._ended)
        """Puts on each burst what it ends."""
        self._aside = SetAside(state.store)
        self._asked: dict[int, tuple[Connection, UptimeMs]] = {}
        # Questions under way, and until when an answer is waited for.
        self._kept = KeptTransactions(state.config_files, state.store, self._open)
        self._tasks: list[asyncio.Task[None]] = []
        self._due = DueLoop(state.clock, self.next_due_ms, self._check_due, "transactions_not_checked", RETRY_MS)
        self.runs = TransactionRuns(state, self._open, self._recent, self.ending, self._due.expect)
        """Those that came in runs of sends."""

    def __len__(self) -> int:
        """How many half messages are open."""
        return len(self._open)

    @property
    def _halves(self) -> Queue:
        return self._store.queue(HALF_TOPIC, 0)

    # -- start and stop ------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Find the open half messages. Raises: StorageError."""
        for half, checks in self._kept.restore():
            self._begin(half.queue_offset, half.log_position, half.stored_ms, half.properties, checks)
        if len(self._open):
            log.info("transactions_open", count=len(self._open))

    def start(self, spawn: Spawn, pause: Pause) -> None:
        """Begin to ask."""
        self._tasks = [spawn(self._due.run(), "transactions"), spawn(self._kept.loop(pause), "transactions_saved")]

    async def stop(self) -> None:
        """Ask nobody any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._kept.save()

    def forget(self) -> None:
        """Start anew: the queues were deleted."""
        self._open.forget()
        self._recent.clear()
        self.ending.forget()
        self._aside.forget()
        self._asked.clear()
        self._kept.forget()

    # -- the two halves ------------------------------------------------------------------------------------------

    def begin(self, record: NewRecord, unique_id: str, on_stored: OnStored, context: Any) -> None:
        """Store a message as a half one. Raises: BrokerAnswer, StorageError, ProtocolError."""
        half, stored_ms = forms.half_of(record, unique_id, self._halves), self._state.clock.message_ms()
        self._intake.check_time(half, stored_ms)
        self._store.put(half, stored_ms, self._half_stored, (half, stored_ms, on_stored, context))

    def _half_stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        half, stored_ms, on_stored, call = context
        if outcome is not PutOutcome.FAILED:
            self._begin(queue_offset, log_position, stored_ms, half.properties)
            if len(half.body) <= RECENT_BODY_BYTES_MAX:
                self._recent.add(log_position, forms.stored_half(half, queue_offset, log_position, stored_ms))
        on_stored(call, queue_offset, log_position, outcome)

    def _begin(self, offset: int, log_position: int, stored_ms: int, properties: bytes, checks: int = 0) -> None:
        settings = self._state.settings
        timeout_ms = settings.transaction_time_out
        wait_ms = forms.immunity_ms(properties, timeout_ms) or timeout_ms
        due_ms = stored_ms + wait_ms + checks * settings.transaction_check_interval
        self._open.begin(offset, OpenHalf(log_position, forms.producer_group(properties), due_ms, checks))
        self._due.expect(due_ms)

    def half_at(self, log_position: int) -> StoredRecord | None:
        """Return the half message at a position of the log, None when there is none that can be read."""
        try:
            return self._half_now(log_position)
        except OSError:
            return None

    def _half_now(self, log_position: int) -> StoredRecord | None:
        """Return the half message at a position, None when there is none. Raises: OSError (it can't be read now)."""
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
        """Yield when each open half message is asked about next, and where it lies."""
        for log_position, _, due_ms, _ in list(self._open.halves.values()):
            yield due_ms, log_position

    def is_open(self, half: StoredRecord) -> bool:
        """Whether a half message has not been ended."""
        return half.queue_offset in self._open.halves and half.queue_offset not in self.ending.offsets

    def was_set_aside(self, half: StoredRecord) -> bool:
        """Whether a half message was set aside, and nobody has committed it since."""
        return half.queue_offset not in self.ending.offsets and self._aside.has(half.properties)

    def answered(self, offset: int) -> None:
        """Note that a producer has answered a question, whatever it said."""
        self._asked.pop(offset, None)

    def end(self, half: StoredRecord, is_commit: bool, on_stored: OnStored, context: Any) -> None:
        """Commit a half message, or roll it back. Raises: BrokerAnswer, StorageError, ProtocolError."""
        if is_commit:
            topic, queue_id = forms.place_of(half)
            self._intake.put(forms.final_of(half, self._store.queue(topic, queue_id)), on_stored, context)
            self.ending.note(half.queue_offset)
            self._aside.commit(half.queue_offset, half.properties)
        else:
            self.ending.note(half.queue_offset, on_stored, context)

    def _ended(self, offsets: list[int]) -> None:
        self._open.end_all(offsets)
        self._aside.committed(offsets)
        if self._asked:
            for offset in offsets:
                self._asked.pop(offset, None)

    # -- questions -----------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when somebody is asked next."""
        return self._open.next_due_ms()

    def works_until_ms(self) -> MessageMs | None:
        """Return when the next question comes to a producer that is connected: its own work runs on real time."""
        table = self._state.producers.producer_table
        dues = [due_ms for _, group, due_ms, _ in self._open.halves.values() if group in table]
        return MessageMs(min(dues)) if dues else None

    async def check_until(self, message_ms: MessageMs) -> int:
        """Ask about everything due by then; return how many that were. Raises: StorageError."""
        checked = 0
        while due := self._open.take_due(message_ms, SLICE_MAX):
            self._check_all(due)
            checked += len(due)
            await asyncio.sleep(0)
        return checked

    def unrest(self) -> list[Unrest]:
        """Return the questions that connected producers have not answered yet."""
        now_ms = self._state.machine.clock.uptime_ms()
        waiting = {
            offset: connection
            for offset, (connection, until_ms) in self._asked.items()
            if connection.is_open and now_ms < until_ms
        }
        if len(waiting) < len(self._asked):
            self._asked = {offset: self._asked[offset] for offset in waiting}
        end = self._halves.max_offset
        return [
            Unrest(
                self._open.get(offset).group, HALF_TOPIC, 0, offset, offset + 1, end, [connection.client_id or ""],
                "a producer is asked what has become of its transaction",
            )
            for offset, connection in waiting.items()
            if offset in self._open.halves
        ]  # fmt: skip

    async def _check_due(self) -> None:
        await self.check_until(self._state.clock.message_ms())

    def _check_all(self, due: list[int]) -> None:
        try:
            for index, offset in enumerate(due):
                self._check(offset)
                due[index] = -1
        finally:
            for offset in due:
                if offset >= 0:  # not reached: asked again a moment later
                    self._open.postpone(offset, MessageMs(self._state.clock.message_ms() + RETRY_MS))
        self._settle()

    def _check(self, offset: int) -> None:
        """Ask about one half message, or set it aside when that was enough. Raises: StorageError."""
        settings, now_ms = self._state.settings, self._state.clock.message_ms()
        open_half = self._open.get(offset)
        try:
            half = self._half_now(open_half.log_position)
        except OSError as error:
            self._unreadable(offset, open_half, error)
            return
        if half is None:
            _close(self._open, offset, "its record is gone or damaged")
            return
        is_too_old = now_ms - half.born_ms > settings.file_reserved_time * HOUR_MS
        if open_half.checks >= settings.transaction_check_max or is_too_old:
            self._set_aside(half, open_half.checks)
            return
        checks = open_half.checks + 1
        self._open.postpone(offset, MessageMs(now_ms + settings.transaction_check_interval), checks)
        connection = self._state.producers.next_connection(open_half.group)
        if connection is not None:
            self._ask(connection, half, checks)

    def _unreadable(self, offset: int, half: OpenHalf, error: OSError) -> None:
        """Read a half message again when it is due next, as often as its producer would be asked."""
        settings = self._state.settings
        if half.checks >= settings.transaction_check_max:
            _close(self._open, offset, f"its record could not be read {half.checks + 1} times: {error}")
            return
        checks, now_ms = half.checks + 1, self._state.clock.message_ms()
        self._open.postpone(offset, MessageMs(now_ms + settings.transaction_check_interval), checks)
        log.warning("half_message_unreadable", offset=offset, group=half.group, checks=checks, reason=str(error))

    def _ask(self, connection: Connection, half: StoredRecord, times: int) -> None:
        try:
            connection.tell(_question(connection, half, times, self._state.settings.broker_name))
        except (ConnectionLost, ProtocolError) as error:
            log.warning("transaction_not_checked", offset=half.queue_offset, reason=str(error))
            return
        until_ms = UptimeMs(self._state.machine.clock.uptime_ms() + ANSWER_MS_MAX)
        self._asked[half.queue_offset] = connection, until_ms

    def _set_aside(self, half: StoredRecord, checks: int) -> None:
        """Put a half message where people find it. Raises: StorageError."""
        if self._state.topics.get(CHECK_MAX_TIME_TOPIC) is None:
            self._state.topics.put(TopicConfig(CHECK_MAX_TIME_TOPIC, 1, 1, READ_WRITE))
        aside = forms.set_aside(half, self._store.queue(CHECK_MAX_TIME_TOPIC, 0))
        self._store.put(aside, self._state.clock.message_ms(), _no_word)
        self._aside.add(half.properties)
        self.ending.note(half.queue_offset)
        log.warning(
            "transaction_set_aside",
            group=forms.producer_group(half.properties),
            topic=forms.place_of(half)[0],
            message_id=text_property(half.properties, UNIQ_KEY),
            checks=checks,
            way_out=f"nobody has ended it; it is in {CHECK_MAX_TIME_TOPIC}",
        )


def _close(halves: OpenHalves, offset: int, reason: str) -> None:
    """Give up a half message that there is no more."""
    log.error("half_message_gone", offset=offset, group=halves.get(offset).group, reason=reason)
    halves.end_all([offset])


def _no_word(_context: Any, _queue_offset: int, _log_position: int, _outcome: PutOutcome) -> None:
    """Nobody waits for this record."""


def _question(connection: Connection, half: StoredRecord, times: int, broker_name: str) -> CheckTransaction:
    """Return the question in the form of the other side's codec. Raises: ProtocolError."""
    unique_id = text_property(half.properties, UNIQ_KEY)
    asked = forms.question(half, times)
    body = record_for(asked, connection.codec.number == NATIVE, connection.store_host)
    return CheckTransaction(
        half.queue_offset, half.log_position, unique_id, unique_id,
        offset_id(connection.store_id_prefix, half.log_position), HALF_TOPIC, broker_name, body=body,
    )  # fmt: skip
