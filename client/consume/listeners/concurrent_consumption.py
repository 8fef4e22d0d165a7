"""Calls listeners as messages arrive, many at once, and processes their results.

RocketMQ: ConsumeMessageConcurrentlyService. A message is done when its listener reports success, or when it has been
sent back. Then it is removed from the process queue, which determines the group's offset; nothing else moves that
offset. If a queue is lost while its listeners run, their results are ignored, and the new owner gets the messages.

A coroutine function is awaited by up to `consume_threads` tasks. If it never suspends, one task consumes a whole pull,
without a task per message. A plain function runs in up to `consume_threads` threads, which belong to this consumer,
several messages per visit to a thread.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from staticfire.client.cluster.program_errors import ListenerFaults, ends_consumer, is_async, report_cancelled
from staticfire.client.consume.listeners.concurrent_results import ConcurrentResults, Send
from staticfire.client.consume.listeners.threaded_calls import (
    VISIT_MS,
    ListenerCall,
    Queue,
    ThreadedCalls,
    Waiting,
)
from staticfire.client.consume.listeners.worker_pool import WorkerPool
from staticfire.client.consume.queues.instructions import GiveBack
from staticfire.client.consume.queues.queue_driver import Driver
from staticfire.client.consume.results.consume_results import (
    ConsumeContext,
    ConsumeStatus,
    Listener,
    split_into_batches,
)
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Spawn

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
        self._uptime_ms = machine.clock.uptime_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._plain: ThreadedCalls | None = None
        if not is_async(listener):
            threads = machine.workers.foreign_threads(settings.consume_threads)
            self._plain = ThreadedCalls(listener, self._waiting, machine.clock, threads)
        work = self._work_in_threads if self._plain is not None else self._work
        self._pool = WorkerPool(settings.consume_threads, work, spawn, f"listener of {group}")
        self._ramp: asyncio.TimerHandle | None = None
        self._collecting: asyncio.TimerHandle | None = None
        self._faults = ListenerFaults(group)
        self._results = ConcurrentResults(group, settings, machine.clock, send_back, driver, self._faults)
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
        if self._plain is not None:
            self._plain.threads.resize(threads)
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
        if self._collecting is None and self._plain is not None and self._plain.is_visiting:
            self._collecting = self._loop.call_later(VISIT_MS / 1000, self._collect)
        if self._waiting:
            self._pool.call()
            if self._pool.busy < self._pool.size:
                self._ramp = self._loop.call_later(RAMP_MS / 1000, self._help)

    def _collect(self) -> None:
        """Process the finished calls of visits to threads whose current call takes long."""
        assert self._plain is not None
        self._collecting = None
        if self._plain.end_long_visits(self._uptime_ms()):
            self._collecting = self._loop.call_later(VISIT_MS / 1000, self._collect)
        self.settle()

    async def leave(self) -> None:
        """Start no new calls, and wait for the running ones, up to the limit of the settings."""
        self._waiting.clear()
        for timer in (self._ramp, self._collecting):
            if timer is not None:
                timer.cancel()
        if self._plain is not None:
            self._plain.leave()
        self.settle()
        cancelled = await self._pool.leave(self._settings.await_termination_ms)
        self.settle()
        if self._giving_back:
            await asyncio.wait(list(self._giving_back), timeout=self._settings.await_termination_ms / 1000)
        self._results.report()
        running = 0 if self._plain is None else self._plain.close()
        report_cancelled(self._group, self._listener, cancelled, running)

    def give_back(self, queue: Queue, overdue: GiveBack) -> None:
        """Send overdue messages back to a broker. The results of their running calls will be ignored."""
        self._give_back_in_task(self._results.give_back_overdue(queue, overdue), f"overdue in {queue.queue}")

    def _give_back_in_task(self, giving: Coroutine[Any, Any, None], name: str) -> None:
        task = self._spawn(giving, name)
        self._giving_back[task] = None
        task.add_done_callback(self._giving_back.pop)

    def settle(self) -> None:
        """Report to the queues which of their messages are done, also by visits to threads that aren't over."""
        if self._plain is not None:
            failed, end = self._count(self._plain.take_finished())
            if failed or end is not None:
                self._give_back_in_task(self._judge(failed, end), f"failed calls of {self._group}")
        self._results.report()

    # -- calling -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Await the listener for one call after another until none waits."""
        waiting, pool, listener, uptime_ms = self._waiting, self._pool, self._listener, self._uptime_ms
        own, results = asyncio.current_task(), self._results
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
                if queue.finished:  # The same as `done`, without a function call: this is the hot path.
                    queue.finished += messages
                else:
                    results.done(queue, messages)
            else:
                await results.judge(ListenerCall(queue, messages, context, status))
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
            failed, end = self._count(await plain.visit())
            if failed or end is not None:
                await self._judge(failed, end)

    def _count(self, calls: list[ListenerCall]) -> tuple[list[ListenerCall], BaseException | None]:
        """Mark the messages of successful calls as done. Return the others, and the error that ends the consumer."""
        failed, end = [], None
        for call in calls:
            call.queue.tally.called(call.took_ms)
            if call.error is not None:
                if isinstance(call.error, KeyboardInterrupt):
                    end = call.error
                    continue
                self._faults.raised(call.error)
                call.status = _LATER
            if call.status is _SUCCESS and call.context.ack_index is None:
                self._results.done(call.queue, call.messages)
            else:
                failed.append(call)
                for message in call.messages:
                    message.consume_started_ms = 0  # Its listener has ended: it can't take too long any more.
        return failed, end

    async def _judge(self, failed: list[ListenerCall], end: BaseException | None) -> None:
        """Process the results of calls that aren't plain successes. Raises: `end`, after that."""
        for call in failed:
            await self._results.judge(call)
        if end is not None:
            raise end
