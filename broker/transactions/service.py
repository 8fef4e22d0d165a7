"""Half messages: stored, ended, asked about, found again after a start. RocketMQ: TransactionalMessageServiceImpl.

The end of a half message is one burst: its final form, then the record of the end. So a kill in between leaves the
half message open, and its producer is asked again: the message may come twice then, and is never lost.

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
from staticfire.broker.transactions.kept import KeptTransactions
from staticfire.broker.transactions.open_halves import OpenHalf, OpenHalves
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import ConnectionLost, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
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
RECENT_MAX, RECENT_BODY_BYTES_MAX = 1_024, 8_192
# Half messages in memory until they are ended, and how large one may be: 8 MiB together.
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
        self._recent: dict[int, StoredRecord] = {}
        # The newest halves by log position: most are ended soon, and don't have to be read for it.
        self._ending: set[int] = set()
        # Ended on a burst that isn't written yet.
        self._asked: dict[int, tuple[Connection, UptimeMs]] = {}
        # Questions under way, and until when an answer is waited for.
        self._kept = KeptTransactions(state.config_files, state.store, self._open)
        self._tasks: list[asyncio.Task[None]] = []
        self._due = DueLoop(state.clock, self.next_due_ms, self._check_due, "transactions_not_checked", RETRY_MS)

    def __len__(self) -> int:
        """How many half messages are open."""
        return len(self._open)

    @property
    def _halves(self) -> Queue:
        return self._store.queue(HALF_TOPIC, 0)

    @property
    def _ends(self) -> Queue:
        return self._store.queue(OP_HALF_TOPIC, 0)

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
                if len(self._recent) >= RECENT_MAX:
                    del self._recent[next(iter(self._recent))]
                self._recent[log_position] = forms.stored_half(half, queue_offset, log_position, stored_ms)
        on_stored(call, queue_offset, log_position, outcome)

    def _begin(self, offset: int, log_position: int, stored_ms: int, properties: bytes, checks: int = 0) -> None:
        settings = self._state.settings
        timeout_ms = settings.transaction_time_out
        wait_ms = forms.immunity_ms(properties, timeout_ms) or timeout_ms
        due_ms = stored_ms + wait_ms + checks * settings.transaction_check_interval
        self._open.begin(offset, OpenHalf(log_position, forms.producer_group(properties), due_ms, checks))
        self._due.expect(due_ms)

    def half_at(self, log_position: int) -> StoredRecord | None:
        """Return the half message at a position of the log, None when there is none."""
        recent = self._recent.pop(log_position, None)
        if recent is not None:
            return recent
        try:
            data = self._store.record_at(log_position)
            record = None if data is None else decode_record(data)
        except (OSError, StorageError, ProtocolError):
            return None
        return record if record is not None and record.topic == HALF_TOPIC else None

    def waiting_places(self) -> Iterator[tuple[int, int]]:
        """Yield when each open half message is asked about next, and where it lies."""
        for half in list(self._open.halves.values()):
            yield half.due_ms, half.log_position

    def is_open(self, half: StoredRecord) -> bool:
        """Whether a half message has not been ended."""
        return half.queue_offset in self._open.halves and half.queue_offset not in self._ending

    def answered(self, offset: int) -> None:
        """Note that a producer has answered a question, whatever it said."""
        self._asked.pop(offset, None)

    def end(self, half: StoredRecord, is_commit: bool, on_stored: OnStored, context: Any) -> None:
        """Commit a half message, or roll it back. Raises: BrokerAnswer, StorageError, ProtocolError."""
        if is_commit:
            topic, queue_id = forms.place_of(half)
            self._intake.put(forms.final_of(half, self._store.queue(topic, queue_id)), _no_word, None)
        self._put_end(half, on_stored, context)

    def _put_end(self, half: StoredRecord, on_stored: OnStored, context: Any) -> None:
        now_ms = self._state.clock.message_ms()
        self._ending.add(half.queue_offset)
        ended = forms.end_of(half, self._ends, now_ms)
        self._store.put(ended, now_ms, self._end_stored, (half.queue_offset, on_stored, context))

    def _end_stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        half_offset, on_stored, call = context
        self._ending.discard(half_offset)
        if outcome is not PutOutcome.FAILED:
            self._open.end(half_offset)
            self._asked.pop(half_offset, None)
        on_stored(call, queue_offset, log_position, outcome)

    # -- questions -----------------------------------------------------------------------------------------------

    def next_due_ms(self) -> MessageMs | None:
        """Return when somebody is asked next."""
        return self._open.next_due_ms()

    def works_until_ms(self) -> MessageMs | None:
        """Return when the next question comes to a producer that is connected: its own work runs on real time."""
        table = self._state.producers.producer_table
        dues = [half.due_ms for half in self._open.halves.values() if half.group in table]
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
                self._open.halves[offset].group, HALF_TOPIC, 0, offset, offset + 1, end, [connection.client_id or ""],
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
        open_half = self._open.halves[offset]
        half = self.half_at(open_half.log_position)
        if half is None:
            log.error("half_message_gone", offset=offset, group=open_half.group, reason="its record is gone or damaged")
            self._open.end(offset)
            return
        is_too_old = now_ms - half.born_ms > settings.file_reserved_time * HOUR_MS
        if open_half.checks >= settings.transaction_check_max or is_too_old:
            self._set_aside(half, open_half.checks)
            return
        open_half.checks += 1
        self._open.postpone(offset, MessageMs(now_ms + settings.transaction_check_interval))
        connection = self._state.producers.next_connection(open_half.group)
        if connection is not None:
            self._ask(connection, half, open_half.checks)

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
        self._put_end(half, _no_word, None)
        log.warning(
            "transaction_set_aside",
            group=forms.producer_group(half.properties),
            topic=forms.place_of(half)[0],
            message_id=text_property(half.properties, UNIQ_KEY),
            checks=checks,
            way_out=f"nobody has ended it; it is in {CHECK_MAX_TIME_TOPIC}",
        )


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
