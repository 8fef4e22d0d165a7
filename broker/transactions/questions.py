"""Questions about half messages that nobody ends: to a producer of the group, again and again, until it is enough.

RocketMQ: TransactionalMessageCheckService, AbstractTransactionalMessageCheckListener.
"""

import asyncio
from collections.abc import Callable

from staticfire.broker.clock.due_loop import DueLoop
from staticfire.broker.state import BrokerState
from staticfire.broker.transactions import forms
from staticfire.broker.transactions.open_halves import OpenHalf, OpenHalves
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import ConnectionLost, ProtocolError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.names import HALF_TOPIC
from staticfire.protocol.properties import UNIQ_KEY, text_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.transactions import CheckTransaction
from staticfire.protocol.rocketmq_record import record_for
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("broker")

SLICE_MAX = 64
# Half messages asked about between two looks at the sockets.
RETRY_MS = 1_000
ANSWER_MS_MAX = 5_000
# So long an advance waits for the answer of a producer that was asked.
RETURN_MS_MAX = 2_000
# So long an advance waits for the producers that had transactions open when the broker was stopped. Without that it
# would use up all their checks before they are connected again.
HOUR_MS = 3_600_000


class Questions:
    """What the producers of one broker are asked, and when."""

    def __init__(
        self,
        state: BrokerState,
        open_halves: OpenHalves,
        half_now: Callable[[int], StoredRecord | None],
        set_aside: Callable[[StoredRecord, int], None],
        settle: Callable[[], None],
    ) -> None:
        """`half_now` reads the half message at a log position, `settle` writes the burst.

        `set_aside` takes a half message, and how often it was asked about.
        """
        self._state = state
        self._open = open_halves
        self._half_now = half_now
        self._set_aside = set_aside
        self._settle = settle
        self._asks_until_ms = MessageMs(0)
        # Message time is there already for who asks, while an advance is under way.
        self._asked: dict[int, tuple[Connection, UptimeMs]] = {}
        # Questions under way, and until when an answer is waited for.
        self._returning: dict[str, None] = {}
        # Groups whose producers aren't back since this broker was started, and until when that is waited for.
        self._returning_until_ms = UptimeMs(0)
        self._due = DueLoop(state.clock, self.next_due_ms, self._check_due, "transactions_not_checked", RETRY_MS)
        self.run = self._due.run
        self.expect = self._due.expect
        """Told when the next ones are to be asked about."""

    def forget(self) -> None:
        """Start anew: the queues were deleted."""
        self._asked.clear()
        self._returning.clear()

    def restored(self) -> None:
        """Know whose transactions were open when the broker was stopped."""
        self._returning = dict.fromkeys(group for _, group, _, _ in self._open.halves.values())
        self._returning_until_ms = UptimeMs(self._state.machine.clock.uptime_ms() + RETURN_MS_MAX)

    def answered(self, offset: int) -> None:
        """Note that a producer has answered a question, whatever it said."""
        self._asked.pop(offset, None)

    def ended(self, offsets: list[int]) -> None:
        """Wait for no answers about those that have ended."""
        if self._asked:
            for offset in offsets:
                self._asked.pop(offset, None)

    def not_ended(self, offsets: list[int]) -> None:
        """Let those stay open whose ends could not be stored: their producers have done what they could."""
        self._open.forgive(offsets)
        settings = self._state.settings
        here_ms = max(self._state.clock.message_ms(), self._asks_until_ms)
        for offset in offsets:
            if offset in self._open.halves and self._open.get(offset).due_ms <= here_ms:
                self._open.postpone(offset, MessageMs(here_ms + settings.transaction_check_interval))

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
        self._asks_until_ms = message_ms
        while due := self._open.take_due(message_ms, SLICE_MAX):
            self._check_all(due)
            checked += len(due)
            await asyncio.sleep(0)
        return checked

    def unrest(self) -> list[Unrest]:
        """Return the questions that connected producers have not answered yet, and who isn't back after a restart."""
        now_ms = self._state.machine.clock.uptime_ms()
        away = self._still_away(now_ms) if self._returning else []
        waiting = {
            offset: connection
            for offset, (connection, until_ms) in self._asked.items()
            if connection.is_open and now_ms < until_ms
        }
        if len(waiting) < len(self._asked):
            self._asked = {offset: self._asked[offset] for offset in waiting}
        end = self._state.store.queue(HALF_TOPIC, 0).max_offset
        return away + [
            Unrest(
                self._open.get(offset).group, HALF_TOPIC, 0, offset, offset + 1, end, [connection.client_id or ""],
                "a producer is asked what has become of its transaction",
            )
            for offset, connection in waiting.items()
            if offset in self._open.halves
        ]  # fmt: skip

    def _still_away(self, now_ms: UptimeMs) -> list[Unrest]:
        table = self._state.producers.producer_table
        is_over = now_ms >= self._returning_until_ms or not self._open.halves
        self._returning = {} if is_over else {group: None for group in self._returning if group not in table}
        reason = "its producers aren't connected again since the broker was started"
        end = self._state.store.queue(HALF_TOPIC, 0).max_offset
        return [Unrest(group, HALF_TOPIC, 0, 0, 0, end, [], reason) for group in self._returning]

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


def _close(halves: OpenHalves, offset: int, reason: str) -> None:
    """Give up a half message that there is no more."""
    log.error("half_message_gone", offset=offset, group=halves.get(offset).group, reason=reason)
    halves.end_all([offset])


def _question(connection: Connection, half: StoredRecord, times: int, broker_name: str) -> CheckTransaction:
    """Return the question in the form of the other side's codec. Raises: ProtocolError."""
    unique_id = text_property(half.properties, UNIQ_KEY)
    asked = forms.question(half, times)
    body = record_for(asked, connection.codec.number == NATIVE, connection.store_host)
    return CheckTransaction(
        half.queue_offset, half.log_position, unique_id, unique_id,
        offset_id(connection.store_id_prefix, half.log_position), HALF_TOPIC, broker_name, body=body,
    )  # fmt: skip
