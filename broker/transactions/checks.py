"""Check half messages that aren't ended: a producer of the group gets check requests until a limit is reached.

RocketMQ: TransactionalMessageCheckService, AbstractTransactionalMessageCheckListener.
"""

import asyncio
from collections.abc import Callable

from staticfire.broker.clock.due_loop import DueLoop
from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.transactions import forms
from staticfire.broker.transactions.open_halves import OpenHalf, OpenHalves
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import ConnectionLost, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from staticfire.protocol.properties import UNIQ_KEY, text_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.clock import Unrest
from staticfire.protocol.requests.transactions import CheckTransaction
from staticfire.protocol.rocketmq_record import record_for
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("broker")

# The number of half messages checked before other tasks run again.
SLICE_MAX = 64
RETRY_MS = 1_000
# How long an advance of the clock waits for the response of a producer to a check.
ANSWER_MS_MAX = 5_000
# How long an advance of the clock waits, after a start, for the producers whose transactions were open at the last
# stop. Without this, it would use up all their checks before they are connected again.
RETURN_MS_MAX = 2_000
HOUR_MS = 3_600_000


class HalfMessageChecks:
    """The check requests to the producers of one broker."""

    def __init__(
        self,
        state: BrokerState,
        producers: ProducerManager,
        open_halves: OpenHalves,
        half_now: Callable[[int], StoredRecord | None],
        set_aside: Callable[[StoredRecord, int], None],
        settle: Callable[[], None],
    ) -> None:
        """`half_now` reads the half message at a log position, `settle` writes the burst.

        `set_aside` is called with a half message, and the number of its checks.
        """
        self._state = state
        self._producers = producers
        self._open = open_halves
        self._half_now = half_now
        self._set_aside = set_aside
        self._settle = settle
        # During an advance of the clock, checks are made up to this message time.
        self._asks_until_ms = MessageMs(0)
        # Checks without a response yet, and until when a response is expected.
        self._checking: dict[int, tuple[Connection, UptimeMs]] = {}
        # Groups whose producers have not reconnected since the start.
        self._returning: dict[str, None] = {}
        # Until when their return is expected.
        self._returning_until_ms = UptimeMs(0)
        self._due = DueLoop(state.clock, self.next_due_ms, self.check_until, "transactions_not_checked", RETRY_MS)
        self._time_out_ms = state.settings.transaction_time_out
        state.on_settings(self._use)
        self.run = self._due.run
        self.expect = self._due.expect
        """Called with the time when the next half messages must be checked."""

    def _use(self, settings: BrokerSettings) -> None:
        """Let a shorter timeout apply to open half messages, too. `_check` does that for a longer one."""
        earlier_ms = self._time_out_ms - settings.transaction_time_out
        self._time_out_ms = settings.transaction_time_out
        if earlier_ms > 0:
            self._open.hasten(earlier_ms)
            self._due.wake()

    def forget(self) -> None:
        """Reset everything, because the queues were deleted."""
        self._checking.clear()
        self._returning.clear()

    def restored(self) -> None:
        """Note the groups whose transactions were open at the last stop."""
        self._returning = dict.fromkeys(group for _, group, _, _ in self._open.halves.values())
        self._returning_until_ms = UptimeMs(self._state.machine.clock.uptime_ms() + RETURN_MS_MAX)

    def answered(self, offset: int) -> None:
        """Note that a producer has responded to a check, whatever the result."""
        self._checking.pop(offset, None)

    def ended(self, offsets: list[int]) -> None:
        """Expect no more responses for half messages that have ended."""
        if self._checking:
            for offset in offsets:
                self._checking.pop(offset, None)

    def not_ended(self, offsets: list[int]) -> None:
        """Keep half messages open whose ends could not be stored. Their last check doesn't count.

        Their producers have done their part.
        """
        self._open.forgive(offsets)
        settings = self._state.settings
        here_ms = max(self._state.clock.message_ms(), self._asks_until_ms)
        for offset in offsets:
            if offset in self._open.halves and self._open.get(offset).due_ms <= here_ms:
                self._open.postpone(offset, MessageMs(here_ms + settings.transaction_check_interval))

    def next_due_ms(self) -> MessageMs | None:
        """Return when the next check is due."""
        return self._open.next_due_ms()

    def works_until_ms(self) -> MessageMs | None:
        """Return when the next check goes to a connected producer, which needs real time for its work.

        None if none does.
        """
        table = self._producers.producer_table
        dues = [due_ms for _, group, due_ms, _ in self._open.halves.values() if group in table]
        return MessageMs(min(dues)) if dues else None

    async def check_until(self, message_ms: MessageMs) -> int:
        """Check everything due at that time; return the number. Raises: StorageError."""
        checked = 0
        self._asks_until_ms = message_ms
        while due := self._open.take_due(message_ms, SLICE_MAX):
            checked += self._check_all(due)
            await asyncio.sleep(0)
        return checked

    def unrest(self) -> list[Unrest]:
        """Return checks without a response from connected producers, and groups that are not back after a restart."""
        now_ms = self._state.machine.clock.uptime_ms()
        away = self._still_away(now_ms) if self._returning else []
        waiting = {
            offset: connection
            for offset, (connection, until_ms) in self._checking.items()
            if connection.is_open and now_ms < until_ms
        }
        if len(waiting) < len(self._checking):
            self._checking = {offset: self._checking[offset] for offset in waiting}
        end = self._state.store.queue(HALF_TOPIC, 0).max_offset
        return away + [
            Unrest(
                self._open.get(offset).group, HALF_TOPIC, 0, offset, offset + 1, end, [connection.client_id or ""],
                "a check is sent to the producer of a transaction",
            )
            for offset, connection in waiting.items()
            if offset in self._open.halves
        ]  # fmt: skip

    def _still_away(self, now_ms: UptimeMs) -> list[Unrest]:
        table = self._producers.producer_table
        is_over = now_ms >= self._returning_until_ms or not self._open.halves
        self._returning = {} if is_over else {group: None for group in self._returning if group not in table}
        reason = "its producers haven't reconnected since the broker started"
        end = self._state.store.queue(HALF_TOPIC, 0).max_offset
        return [Unrest(group, HALF_TOPIC, 0, 0, 0, end, [], reason) for group in self._returning]

    def _check_all(self, due: list[int]) -> int:
        """Check these half messages; return the number of those that were old enough. Raises: StorageError."""
        checked = 0
        try:
            for index, offset in enumerate(due):
                checked += self._check(offset)
                due[index] = -1
        except OSError as error:
            raise StorageError(f"a half message can't be moved to {CHECK_MAX_TIME_TOPIC}: {error}") from error
        finally:
            for offset in due:
                if offset >= 0:  # This one was not reached: it is checked again a moment later.
                    self._open.postpone(offset, MessageMs(self._state.clock.message_ms() + RETRY_MS))
        self._settle()
        return checked

    def _check(self, offset: int) -> bool:
        """Check one half message, or set it aside after the last check; return False if it isn't old enough.

        Raises: StorageError, OSError (it can't be set aside now).
        """
        settings, clock = self._state.settings, self._state.clock
        now_ms, open_half = clock.message_ms(), self._open.get(offset)
        try:
            half = self._half_now(open_half.log_position)
        except OSError as error:
            self._unreadable(offset, open_half, error)
            return True
        if half is None:
            _close(self._open, offset, "its record is missing or damaged")
            return True
        is_too_old = forms.age_ms(half, now_ms, clock.is_wall) > settings.file_reserved_time * HOUR_MS
        if open_half.checks >= settings.transaction_check_max or is_too_old:
            self._set_aside(half, open_half.checks)
            return True
        first_ms = half.stored_ms + forms.wait_ms(half.properties, settings.transaction_time_out)
        if now_ms < first_ms:  # The timeout is longer than when the due time was computed.
            self._open.postpone(offset, MessageMs(first_ms))
            return False
        checks = open_half.checks + 1
        self._open.postpone(offset, MessageMs(now_ms + settings.transaction_check_interval), checks)
        connection = self._producers.next_connection(open_half.group)
        if connection is not None:
            self._ask(connection, half, checks)
        return True

    def _unreadable(self, offset: int, half: OpenHalf, error: OSError) -> None:
        """Schedule another read of a half message at its next check, up to the limit of checks."""
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
        self._checking[half.queue_offset] = connection, until_ms


def _close(halves: OpenHalves, offset: int, reason: str) -> None:
    """Remove a half message that no longer exists."""
    log.error("half_message_gone", offset=offset, group=halves.get(offset).group, reason=reason)
    halves.end_all([offset])


def _question(connection: Connection, half: StoredRecord, times: int, broker_name: str) -> CheckTransaction:
    """Return the check request in the format of the producer's codec. Raises: ProtocolError."""
    unique_id = text_property(half.properties, UNIQ_KEY)
    check = forms.question(half, times)
    body = record_for(check, connection.codec.number == NATIVE, connection.store_host)
    return CheckTransaction(
        half.queue_offset, half.log_position, unique_id, unique_id,
        offset_id(connection.store_id_prefix, half.log_position), HALF_TOPIC, broker_name, body=body,
    )  # fmt: skip
