"""Processes the results of listeners that consume in any order: what is done is reported, what failed is sent back."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from staticfire.client.cluster.program_errors import ListenerFaults
from staticfire.client.consume.listeners.threaded_calls import ListenerCall, Queue
from staticfire.client.consume.queues.instructions import Count, GiveBack, Instructions
from staticfire.client.consume.queues.queue_driver import Driver
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus, number_of
from staticfire.client.settings.push_settings import MessageModel, PushSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("client")

Send = Callable[[ReceivedMessage, int], Awaitable[None]]
"""Sends a failed message to a broker, with a delay level. Raises: StaticfireError."""

# The largest one that a request can carry; a broker takes a level above its last one for that.
DELAY_LEVEL_MAX = 2**31 - 1

_SUCCESS = ConsumeStatus.CONSUME_SUCCESS
_LATER = ConsumeStatus.RECONSUME_LATER


class ConcurrentResults:
    """The results of one consumer's listener."""

    def __init__(
        self,
        group: str,
        settings: PushSettings,
        clock: Clock,
        send_back: Send,
        driver: Driver,
        faults: ListenerFaults,
    ) -> None:
        self._group = group
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        self._uptime_ms = clock.uptime_ms
        self._send_back = send_back
        self._driver = driver
        self._faults = faults
        self._loop = asyncio.get_running_loop()
        self._finished: list[Queue] = []

    def done(self, queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Mark messages as done. They are reported at the end of this tick, with the others of their queue."""
        if not queue.finished:
            if not self._finished:
                self._loop.call_soon(self.report)
            self._finished.append(queue)
        queue.finished += messages

    def report(self) -> None:
        """Report to the queues which of their messages are done."""
        finished, self._finished = self._finished, []
        uptime_ms = self._uptime_ms()
        for queue in finished:
            messages, queue.finished = queue.finished, []
            queue.tally.ok += len(messages)
            self._driver.carry_out(queue, queue.done(messages, uptime_ms))

    async def judge(self, call: ListenerCall) -> None:
        """Process a result of the listener, whatever it is."""
        queue, status = call.queue, call.status
        if queue.is_dropped:
            return
        if status is not _SUCCESS and status is not _LATER:
            if status is not None:
                self._faults.answered(status, taken_for=_LATER.name)
            status = _LATER
        if self._is_context_wrong(call.context):
            status = _LATER
        for instruction in queue.policy.answered(call.messages, status, call.context):
            if isinstance(instruction, GiveBack) or (isinstance(instruction, Count) and not instruction.is_ok):
                queue.tally.failed += len(instruction.messages)
            if isinstance(instruction, GiveBack):
                await self._give_back(queue, instruction)
            else:
                self._carry_out(queue, [instruction])

    def _is_context_wrong(self, context: ConsumeContext) -> bool:
        """Replace the values that aren't numbers. Return whether it is unknown which messages are done."""
        level = number_of(context.delay_level_when_next_consume)
        if level is None or abs(level) > DELAY_LEVEL_MAX:
            self._faults.set_wrong("delay_level_when_next_consume", context.delay_level_when_next_consume, 0)
            level = 0
        context.delay_level_when_next_consume = level
        if context.ack_index is None:
            return False
        done = number_of(context.ack_index)
        if done is None:
            self._faults.set_wrong("ack_index", context.ack_index, _LATER.name)
        context.ack_index = done
        return done is None

    def _carry_out(self, queue: Queue, instructions: Instructions) -> None:
        for instruction in instructions:
            if isinstance(instruction, Count) and instruction.is_ok:
                self.done(queue, instruction.messages)
            elif isinstance(instruction, Count):
                self._driver.carry_out(queue, queue.let_go(list(instruction.messages), self._uptime_ms()))
            else:
                self._driver.carry_out(queue, [instruction])

    async def _give_back(self, queue: Queue, failed: GiveBack) -> None:
        """Send messages back one by one, and report to the queue which ones no broker accepted."""
        kept = []
        for message in failed.messages:
            if queue.is_dropped:
                return
            if not queue.policy.is_to_give_back(message):
                continue
            try:
                await self._send_back(message, failed.delay_level)
            except StaticfireError as error:
                log.warning("message_kept", group=self._group, message_id=message.message_id, reason=str(error))
                kept.append(message)
            else:
                self._driver.carry_out(queue, queue.let_go([message], self._uptime_ms()))
        self._driver.carry_out(queue, queue.policy.kept(kept, self._uptime_ms()))

    async def give_back_overdue(self, queue: Queue, overdue: GiveBack) -> None:
        """Process messages that took too long."""
        for message in overdue.messages:
            took_ms = self._uptime_ms() - message.consume_started_ms
            log.warning("message_overdue", group=self._group, message_id=message.message_id, took_ms=took_ms)
            is_taken = True
            if not self._is_broadcasting:
                try:
                    await self._send_back(message, overdue.delay_level)
                except StaticfireError as error:
                    is_taken = False
                    log.warning("message_kept", group=self._group, message_id=message.message_id, reason=str(error))
            if not queue.is_dropped:
                self._carry_out(queue, queue.policy.overdue_sent(message, is_taken, self._uptime_ms()))
