"""Listeners called as messages come, many at once, and what becomes of their answers.

RocketMQ: ConsumeMessageConcurrentlyService. A message is done when its listener says so, or when it has been sent back:
then it leaves the process queue, which tells how far the group has come; nothing else moves progress. Listeners of a
queue that was lost meanwhile have worked in vain: their results count for nothing, and the new owner gets the messages.

A coroutine function is awaited by one of `consume_threads` tasks; one that never waits goes through a whole pull
without a task per message. A plain function runs in the machine's workers, several messages per visit to a thread.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from staticfire.client.consume.consume_results import (
    ConsumeContext,
    ConsumeStatus,
    Listener,
    Messages,
    count_done,
    split_into_batches,
)
from staticfire.client.consume.listener_errors import ListenerFaults, ends_consumer, is_async
from staticfire.client.consume.process_queue import ProcessQueue
from staticfire.client.consume.push_settings import MessageModel, PushSettings
from staticfire.client.consume.threaded_calls import Call, ThreadedCalls, Waiting
from staticfire.client.consume.worker_pool import Spawn, WorkerPool
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

log = logger("client")

SendBack = Callable[[ReceivedMessage, int], Awaitable[None]]
"""Hands a failed message, with a delay level, to a broker. Raises: StaticfireError."""

CALLS_IN_A_ROW_MAX = 32
# Of listeners that never wait: then everybody else of the event loop has a turn.
RAMP_MS = 1
# How long threads may be busy before another one helps. Quick functions are done by one.

_SUCCESS = ConsumeStatus.CONSUME_SUCCESS
_LATER = ConsumeStatus.RECONSUME_LATER


class ConcurrentConsumption:
    """The listener of one consumer at work."""

    def __init__(
        self,
        group: str,
        listener: Listener,
        settings: PushSettings,
        machine: Machine,
        offsets: OffsetStore,
        send_back: SendBack,
        spawn: Spawn,
    ) -> None:
        self._group = group
        self._listener: Any = listener
        self._settings = settings
        self._machine = machine
        self._uptime_ms = machine.clock.uptime_ms
        self._offsets = offsets
        self._send_back = send_back
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._plain = None if is_async(listener) else ThreadedCalls(listener, self._waiting, machine.clock)
        work = self._work_in_threads if self._plain is not None else self._work
        self._pool = WorkerPool(settings.consume_threads, work, spawn, f"listener of {group}")
        self._ramp: asyncio.TimerHandle | None = None
        self._faults = ListenerFaults(group)
        self._finished: list[ProcessQueue] = []

    @property
    def waiting(self) -> int:
        """How many listener calls have not begun."""
        return len(self._waiting)

    @property
    def threads(self) -> int:
        """How many listeners may run at once."""
        return self._pool.size

    def resize(self, threads: int) -> None:
        """Let that many listeners run at once from now on."""
        self._pool.resize(threads)
        self._call()

    def submit(self, process_queue: ProcessQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take messages to consume, in batches as the settings say."""
        if self._pool.is_leaving:
            return
        batch_max = self._settings.consume_message_batch_max_size
        if batch_max == 1:
            self._waiting.extend([(process_queue, (message,)) for message in messages])
        else:
            self._waiting.extend([(process_queue, batch) for batch in split_into_batches(messages, batch_max)])
        self._call()

    def _call(self) -> None:
        """Get somebody to do what waits."""
        if self._plain is None or self._pool.busy == 0:
            if self._waiting:
                self._pool.call()
        elif self._waiting and self._ramp is None:
            self._ramp = self._loop.call_later(RAMP_MS / 1000, self._help)

    def _help(self) -> None:
        """Threads have been busy for a while: use one more."""
        self._ramp = None
        if self._waiting:
            self._pool.call()
            if self._pool.busy < self._pool.size:
                self._ramp = self._loop.call_later(RAMP_MS / 1000, self._help)

    async def leave(self) -> None:
        """Begin nothing new and wait for the listeners that run, as long as the settings say."""
        self._waiting.clear()
        if self._ramp is not None:
            self._ramp.cancel()
        if self._plain is not None:
            self._plain.is_leaving = True
        cancelled = await self._pool.leave(self._settings.await_termination_ms)
        self.settle()
        if cancelled:
            log.warning("listeners_cancelled", group=self._group, listeners=cancelled)

    # -- calling -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Await the listener for one call after the other until nothing waits."""
        waiting, pool, listener, uptime_ms = self._waiting, self._pool, self._listener, self._uptime_ms
        in_a_row = 0
        while waiting and not pool.is_shrinking:
            process_queue, messages = waiting.popleft()
            if process_queue.dropped:
                continue
            if not pool.is_called and waiting:
                pool.call()  # It gets its turn when this one waits.
            context = ConsumeContext(process_queue.queue)
            started_ms = uptime_ms()
            for message in messages:
                message.consume_started_ms = started_ms
            try:
                status = await listener(messages, context)
            except BaseException as error:
                if ends_consumer(error, pool.is_leaving):
                    raise
                self._faults.raised(error)
                status = _LATER
            if status is _SUCCESS and context.ack_index is None:
                if process_queue.finished:  # It is `_done` without the call: this is the hot path.
                    process_queue.finished += messages
                else:
                    self._done(process_queue, messages)
            else:
                await self._judge(Call(process_queue, messages, context, status))
            in_a_row += 1
            if in_a_row == CALLS_IN_A_ROW_MAX:
                in_a_row = 0
                await asyncio.sleep(0)

    async def _work_in_threads(self) -> None:
        """Visit a thread until nothing waits; each visit consumes as much as it can in a few milliseconds."""
        plain, pool = self._plain, self._pool
        assert plain is not None
        while self._waiting and not pool.is_shrinking:
            self._call()
            calls = await self._machine.workers.run(plain.visit)
            later, end = [], None
            for call in calls:
                if call.error is not None:
                    if ends_consumer(call.error):
                        end = call.error
                        continue
                    self._faults.raised(call.error)
                    call.status = _LATER
                if call.status is _SUCCESS and call.context.ack_index is None:
                    self._done(call.process_queue, call.messages)
                else:
                    later.append(call)
            for call in later:
                await self._judge(call)
            if end is not None:
                raise end

    # -- results -------------------------------------------------------------------------------------------------

    def _done(self, process_queue: ProcessQueue, messages: Messages) -> None:
        """Take messages as done. They are let go at the end of this tick, with the others of their queue."""
        if not process_queue.finished:
            if not self._finished:
                self._loop.call_soon(self.settle)
            self._finished.append(process_queue)
        process_queue.finished += messages

    def settle(self) -> None:
        """Let go what is done, and note how far the group has come."""
        finished, self._finished = self._finished, []
        for process_queue in finished:
            messages, process_queue.finished = process_queue.finished, []
            if process_queue.dropped:
                continue
            offset = process_queue.remove(messages)
            if offset < 0:
                continue
            self._offsets.update(process_queue.queue, offset)
            if not process_queue:
                self._offsets.drained(process_queue.queue)
            if process_queue.room is not None:
                process_queue.room()

    async def _judge(self, call: Call) -> None:
        """Do what follows from any answer of a listener."""
        process_queue, messages, context = call.process_queue, call.messages, call.context
        if process_queue.dropped:
            return
        status = call.status
        if status is not _SUCCESS and status is not _LATER:
            if status is not None:
                self._faults.answered(status, taken_for=_LATER.name)
            status = _LATER
        honours = self._settings.reconsume_later_honours_ack_index
        done = count_done(status, context.ack_index, len(messages), honours)
        if done:
            self._done(process_queue, messages[:done])
        failed = messages[done:]
        if not failed:
            return
        if self._is_broadcasting:
            log.warning("message_dropped", group=self._group, queue=str(process_queue.queue), messages=len(failed))
            self._done(process_queue, failed)
        else:
            await self._give_back(process_queue, failed, context.delay_level_when_next_consume)

    async def _give_back(self, process_queue: ProcessQueue, failed: Messages, delay_level: int) -> None:
        """Send messages back one by one; those that nobody takes are consumed here again in a while."""
        kept = []
        for message in failed:
            if process_queue.dropped:
                return
            if message not in process_queue:
                continue  # It was sent back meanwhile, for taking too long.
            try:
                await self._send_back(message, delay_level)
            except StaticfireError as error:
                log.warning("message_kept", group=self._group, message_id=message.message_id, reason=str(error))
                message.reconsume_times += 1
                kept.append(message)
            else:
                self._done(process_queue, (message,))
        if kept:
            self._loop.call_later(self._settings.retry_here_ms / 1000, self._again, (process_queue, tuple(kept)))

    def _again(self, waiting: Waiting) -> None:
        if not self._pool.is_leaving:
            self._waiting.append(waiting)
            self._call()
