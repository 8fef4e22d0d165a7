"""Calls listeners as messages arrive, many at once, and processes their results.

RocketMQ: ConsumeMessageConcurrentlyService. A message is done when its listener reports success, or when it has been
sent back. Then it is removed from the process queue, which determines the group's offset; nothing else moves that
offset. If a queue is lost while its listeners run, their results are ignored, and the new owner gets the messages.

A coroutine function is awaited by up to `consume_threads` tasks. If it never suspends, one task consumes a whole pull,
without a task per message. A plain function runs in the machine's worker threads, several messages per visit to a
thread.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from staticfire.client.cluster.program_errors import ListenerFaults, ends_consumer, is_async, report_cancelled
from staticfire.client.consume.listeners.threaded_calls import ListenerCall, Queue, ThreadedCalls, Waiting
from staticfire.client.consume.listeners.worker_pool import WorkerPool
from staticfire.client.consume.queues.instructions import Count, GiveBack, Instructions
from staticfire.client.consume.queues.queue_driver import Driver
from staticfire.client.consume.results.consume_results import (
    ConsumeContext,
    ConsumeStatus,
    Listener,
    split_into_batches,
)
from staticfire.client.settings.push_settings import MessageModel, PushSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Spawn

log = logger("client")

Send = Callable[[ReceivedMessage, int], Awaitable[None]]
"""Sends a failed message to a broker, with a delay level. Raises: StaticfireError."""

# After this many calls that didn't suspend, other tasks of the event loop get a turn.
CALLS_IN_A_ROW_MAX = 32
# How long threads may be busy before one more is used. One thread is enough for fast functions.
RAMP_MS = 1

_SUCCESS = ConsumeStatus.CONSUME_SUCCESS
_LATER = ConsumeStatus.RECONSUME_LATER


class ConcurrentConsumption:
    """Runs the listener of one consumer."""

    def __init__(
        self,
        group: str,
        listener: Listener,
        settings: PushSettings,
        machine: Machine,
        send_back: Send,
        driver: Driver,
        spawn: Spawn,
    ) -> None:
        self._group = group
        self._listener: Any = listener
        self._settings = settings
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        self._machine = machine
        self._uptime_ms = machine.clock.uptime_ms
        self._driver = driver
        self._send_back = send_back
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._plain = None if is_async(listener) else ThreadedCalls(listener, self._waiting, machine.clock)
        work = self._work_in_threads if self._plain is not None else self._work
        self._pool = WorkerPool(settings.consume_threads, work, spawn, f"listener of {group}")
        self._ramp: asyncio.TimerHandle | None = None
        self._faults = ListenerFaults(group)
        self._finished: list[Queue] = []
        self._spawn = spawn
        self._giving_back: dict[asyncio.Task[None], None] = {}

    @property
    def waiting(self) -> int:
        """The number of listener calls that have not begun."""
        return len(self._waiting)

    @property
    def threads(self) -> int:
        """How many listener calls may run at once."""
        return self._pool.size

    def resize(self, threads: int) -> None:
        """Allow this many concurrent listener calls from now on."""
        self._pool.resize(threads)
        self._call()

    def submit(self, queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Accept messages to consume, in batches of the size in the settings."""
        if self._pool.is_leaving:
            return
        batch_max = self._settings.consume_message_batch_max_size
        if batch_max == 1:
            self._waiting.extend([(queue, (message,)) for message in messages])
        else:
            self._waiting.extend([(queue, batch) for batch in split_into_batches(messages, batch_max)])
        self._call()

    def _call(self) -> None:
        """Let a worker process the waiting calls."""
        if self._plain is None or self._pool.busy == 0:
            if self._waiting:
                self._pool.call()
        elif self._waiting and self._ramp is None:
            self._ramp = self._loop.call_later(RAMP_MS / 1000, self._help)

    def _help(self) -> None:
        """Use one more thread: the others have been busy for a while."""
        self._ramp = None
        if self._waiting:
            self._pool.call()
            if self._pool.busy < self._pool.size:
                self._ramp = self._loop.call_later(RAMP_MS / 1000, self._help)

    async def leave(self) -> None:
        """Start no new calls, and wait for the running ones, up to the limit of the settings."""
        self._waiting.clear()
        if self._ramp is not None:
            self._ramp.cancel()
        if self._plain is not None:
            self._plain.is_leaving = True
        cancelled = await self._pool.leave(self._settings.await_termination_ms)
        if self._giving_back:
            await asyncio.wait(list(self._giving_back), timeout=self._settings.await_termination_ms / 1000)
        self.settle()
        report_cancelled(self._group, self._listener, cancelled, 0 if self._plain is None else self._plain.running)

    def give_back(self, queue: Queue, overdue: GiveBack) -> None:
        """Send overdue messages back to a broker. The results of their running calls will be ignored."""
        task = self._spawn(self._give_back_overdue(queue, overdue), f"overdue in {queue.queue}")
        self._giving_back[task] = None
        task.add_done_callback(self._giving_back.pop)

    # -- calling -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Await the listener for one call after another until none waits."""
        waiting, pool, listener, uptime_ms = self._waiting, self._pool, self._listener, self._uptime_ms
        own = asyncio.current_task()
        in_a_row = 0
        started_ms = uptime_ms()
        while waiting and not pool.is_shrinking:
            queue, messages = waiting.popleft()
            if queue.is_dropped:
                continue
            if not pool.is_called and waiting:
                pool.call()  # It runs when this one suspends.
            context = ConsumeContext(queue.queue, queue.max_offset)
            for message in messages:
                message.consume_started_ms = started_ms
            try:
                status = await listener(messages, context)
            except BaseException as error:
                if ends_consumer(error, pool.is_leaving, own):
                    raise
                self._faults.raised(error)
                status = _LATER
            ended_ms = uptime_ms()
            tally = queue.tally
            tally.calls += 1
            if ended_ms != started_ms:
                tally.consume_ms += ended_ms - started_ms
                started_ms = ended_ms  # The next call begins now.
            if status is _SUCCESS and context.ack_index is None:
                if queue.finished:  # The same as `_done`, without a function call: this is the hot path.
                    queue.finished += messages
                else:
                    self._done(queue, messages)
            else:
                await self._judge(ListenerCall(queue, messages, context, status))
                started_ms = uptime_ms()
            in_a_row += 1
            if in_a_row == CALLS_IN_A_ROW_MAX:
                in_a_row = 0
                await asyncio.sleep(0)
                started_ms = uptime_ms()

    async def _work_in_threads(self) -> None:
        """Visit a thread until no call waits. Each visit consumes as much as it can in a few milliseconds."""
        plain, pool = self._plain, self._pool
        assert plain is not None
        while self._waiting and not pool.is_shrinking:
            self._call()
            calls = await self._machine.workers.run_foreign(plain.visit)
            later, end = [], None
            for call in calls:
                call.queue.tally.called(call.took_ms)
                if call.error is not None:
                    if ends_consumer(call.error):
                        end = call.error
                        continue
                    self._faults.raised(call.error)
                    call.status = _LATER
                if call.status is _SUCCESS and call.context.ack_index is None:
                    self._done(call.queue, call.messages)
                else:
                    later.append(call)
            for call in later:
                await self._judge(call)
            if end is not None:
                raise end

    # -- results -------------------------------------------------------------------------------------------------

    def _done(self, queue: Queue, messages: Sequence[ReceivedMessage]) -> None:
        """Mark messages as done. They are reported at the end of this tick, with the others of their queue."""
        if not queue.finished:
            if not self._finished:
                self._loop.call_soon(self.settle)
            self._finished.append(queue)
        queue.finished += messages

    def settle(self) -> None:
        """Report to the queues which of their messages are done."""
        finished, self._finished = self._finished, []
        uptime_ms = self._uptime_ms()
        for queue in finished:
            messages, queue.finished = queue.finished, []
            queue.tally.ok += len(messages)
            self._driver.carry_out(queue, queue.done(messages, uptime_ms))

    async def _judge(self, call: ListenerCall) -> None:
        """Process a result of the listener, whatever it is."""
        queue, status = call.queue, call.status
        if queue.is_dropped:
            return
        if status is not _SUCCESS and status is not _LATER:
            if status is not None:
                self._faults.answered(status, taken_for=_LATER.name)
            status = _LATER
        for instruction in queue.policy.answered(call.messages, status, call.context):
            if isinstance(instruction, GiveBack) or (isinstance(instruction, Count) and not instruction.is_ok):
                queue.tally.failed += len(instruction.messages)
            if isinstance(instruction, GiveBack):
                await self._give_back(queue, instruction)
            else:
                self._carry_out(queue, [instruction])

    def _carry_out(self, queue: Queue, instructions: Instructions) -> None:
        for instruction in instructions:
            if isinstance(instruction, Count) and instruction.is_ok:
                self._done(queue, instruction.messages)
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

    async def _give_back_overdue(self, queue: Queue, overdue: GiveBack) -> None:
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
