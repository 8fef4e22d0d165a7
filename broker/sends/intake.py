"""Store messages that need more than an append: those that may have to wait, and those for a retry topic.

This is the only place that decides where such a message goes, whether it comes from a producer, from a consumer that
sends it back, or from the broker itself:

1. a message for a retry topic goes to the dead-letter topic if its group doesn't want it redelivered once more,
2. a message with a delay level waits there (`delay/service.py`), one with a time of its own there
   (`timers/service.py`),
3. all others are stored in the queue that they were sent to.

A half message waits for the end of its transaction first (`transactions/service.py`); its final form comes here. The
hot path of sends appends messages that can't need any of this itself.
"""

from typing import Any

from msgspec.structs import replace

from staticfire.broker.delay.service import DelayService
from staticfire.broker.groups.dead_letters import DeadLetters
from staticfire.broker.groups.retries import is_dead_on_arrival, reconsume_times_max
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.state import BrokerState
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import OnStored
from staticfire.broker.timers.service import TimerService
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.delay_levels import requested_level
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.names import group_of_topic
from staticfire.protocol.properties import DELAY, with_property
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.times import MessageMs


class Intake:
    """Stores messages, delayed if they request it."""

    def __init__(
        self,
        state: BrokerState,
        groups: GroupTables,
        delays: DelayService,
        timers: TimerService,
        dead_letters: DeadLetters,
    ) -> None:
        self._state = state
        self._groups = groups
        self._delays = delays
        self._timers = timers
        self._dead_letters = dead_letters

    def put(self, record: NewRecord, on_stored: OnStored, context: Any) -> str | None:
        """Store a message where it waits, or in the queue that it was sent to; return the handle for a recall, if any.

        Raises: StorageError, ProtocolError; BrokerAnswer (the requested delay isn't possible).
        """
        stored_ms = self._state.clock.message_ms()
        waiting = self._delays.waits(record, stored_ms)
        if waiting is None and b"TIMER_DEL" in record.properties:
            timed = self._timers.waits(record, stored_ms)
            if timed is not None:
                return self._timers.put(record, timed, stored_ms, on_stored, context)
        self._state.store.put(record if waiting is None else waiting, stored_ms, on_stored, context)
        return None

    def check_time(self, record: NewRecord, stored_ms: MessageMs) -> None:
        """Check the delivery time of a message that is stored later. Raises: BrokerAnswer."""
        if b"DELAY\x01" in record.properties:
            requested_level(record.properties)
        if b"TIMER_DEL" in record.properties:
            self._timers.waits(record, stored_ms)

    def put_retry(
        self, record: NewRecord, requested_max: int | None, client_version: int, on_stored: OnStored, context: Any
    ) -> None:
        """Store a message that a client sent to a retry topic. `requested_max`: how often the client wants it
        redelivered.

        RocketMQ: handleRetryAndDLQ. Raises: as `put`, and BrokerAnswer (unknown group).
        """
        state = self._state
        if state.settings.refuse_retries_when_read_only and not state.writable:
            remark = f"the broker[{state.machine.identity.host_ip}] sending message is forbidden"
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, remark)
        name = group_of_topic(record.queue.topic) or ""
        group = self._groups.configs.find(name)
        if group is None:
            remark = f"subscription group not exist, {name} {FAQ}"
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        times_max = reconsume_times_max(group, requested_max, client_version)
        holds_locks = self._groups.queue_locks.holds_any(name, state.machine.clock.uptime_ms())
        if is_dead_on_arrival(record.reconsume_times, times_max, holds_locks):
            queue, properties = self._dead_letters.queue_of(name), with_property(record.properties, DELAY, "-1")
            record = replace(record, queue=queue, properties=properties)
            on_stored = self._dead_letters.counted(name, properties, on_stored)
        self.put(record, on_stored, context)
