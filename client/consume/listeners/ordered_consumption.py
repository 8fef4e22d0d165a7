"""Calls listeners queue by queue, each queue in order. RocketMQ: ConsumeMessageOrderlyService.

One worker at a time works on a queue, and the listener gets a message only after the previous one is done, or together
with it. A failed message is consumed again, and its queue waits for it. While a queue's lock isn't certain, nothing of
it is consumed; when the lock is renewed, the queue is submitted again.

Before a queue that is given away is unlocked, its running call is waited for, so that its result counts. RocketMQ
doesn't wait: there the next owner consumes those messages again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from staticfire.client.cluster.program_errors import ListenerFaults, ends_consumer, is_async, report_cancelled
from staticfire.client.consume.listeners.concurrent_consumption import CALLS_IN_A_ROW_MAX
from staticfire.client.consume.listeners.ordered_calls import (
    CALLS_PER_VISIT_MAX,
    OrderedCall,
    OrderedThreadedCalls,
    Queue,
)
from staticfire.client.consume.listeners.worker_pool import WorkerPool
from staticfire.client.consume.queues.instructions import GiveBack
from staticfire.client.consume.queues.queue_driver import Driver
from staticfire.client.consume.results.consume_results import number_of
from staticfire.client.consume.results.ordered_results import (
    AS_IN_SETTINGS,
    OrderedContext,
    OrderedListener,
    OrderedStatus,
    OrderedVerdict,
    decide,
    split_failed,
    suspension_ms,
)
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Spawn

log = logger("client")

GiveUp = Callable[[ReceivedMessage, int], Awaitable[None]]
"""Sends a message that failed too often, with the allowed number of failures, to a broker. Raises: StaticfireError."""


class OrderedConsumption:
    """Runs the listener of one consumer."""

    def __init__(
        self,
        group: str,
        listener: OrderedListener,
        settings: PushSettings,
        machine: Machine,
        give_up: GiveUp,
        driver: Driver,
        spawn: Spawn,
    ) -> None:
        self._group = group
        self._listener: Any = listener
        self._settings = settings
        self._uptime_ms = machine.clock.uptime_ms
        self._driver = driver
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Queue] = deque()
        self._plain: OrderedThreadedCalls | None = None
        if not is_async(listener):
            threads = machine.workers.foreign_threads(settings.consume_threads)
            self._plain = OrderedThreadedCalls(listener, machine.clock, threads)
        self._pool = WorkerPool(settings.consume_threads, self._work, spawn, f"listener of {group}")
        self._faults = ListenerFaults(group)
        self._is_over = False

    @property
    def waiting(self) -> int:
        """The number of queues that wait for a worker."""
        return len(self._ready)

    @property
    def threads(self) -> int:
        """How many listener calls may run at once."""
        return self._pool.size

    def resize(self, threads: int) -> None:
        """Allow this many concurrent listener calls from now on."""
        if self._plain is not None:
            self._plain.threads.resize(threads)
        self._pool.resize(threads)
        if self._ready:
            self._pool.call()

    def submit(self, queue: Queue, _: Sequence[ReceivedMessage]) -> None:
        """Let a worker consume the next messages of a queue."""
        if self._pool.is_leaving or self._is_over:
            return
        self._ready.append(queue)
        self._pool.call()

    def give_back(self, queue: Queue, overdue: GiveBack) -> None:
        """Do nothing: messages of an ordered queue have no time limit."""

    def settle(self) -> None:
        """Commit the finished calls of threads that are busy with later ones. Other results are processed at once."""
        for queue, call in [] if self._plain is None else self._plain.take_finished():
            queue.tally.called(call.took_ms)
            self._succeeded(queue, call)

    async def leave(self) -> None:
        """Start no new calls, and wait for the running ones, up to the limit of the settings."""
        self._ready.clear()
        if self._plain is not None:
            self._plain.leave()
        cancelled = await self._pool.leave(self._settings.await_termination_ms)
        running = 0 if self._plain is None else self._plain.close()
        report_cancelled(self._group, self._listener, cancelled, running)

    # -- calling -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Work on one queue after another until none is ready."""
        ready, pool = self._ready, self._pool
        while ready and not pool.is_shrinking and not self._is_over:
            queue = ready.popleft()
            if not pool.is_called and ready:
                pool.call()  # It runs when this one suspends.
            queue.policy.is_running = True
            pause_ms: int | None = None
            try:
                pause_ms = await self._turn(queue)
            except BaseException:
                # The consumer ends. No later message of this queue may be consumed before the current one.
                self._is_over = True
                queue.policy.roll_back()
                raise
            finally:
                self._end_turn(queue, pause_ms)
        if ready:
            # This worker leaves; if another one has become idle just now, it continues.
            self._loop.call_soon(pool.call)

    async def _turn(self, queue: Queue) -> int | None:
        """Consume a queue until no message of it waits or may be consumed. Return the pause that the queue needs."""
        uptime_ms = self._uptime_ms()
        end_ms = uptime_ms + self._settings.max_time_consume_continuously_ms
        in_a_row = 0
        while queue.policy.waiting and queue.may_consume(uptime_ms) and not self._pool.is_shrinking:
            for call in [await self._call(queue, uptime_ms)] if self._plain is None else await self._visit(queue):
                queue.tally.called(call.took_ms)
                if call.is_plain_success and not queue.is_dropped:
                    self._succeeded(queue, call)
                elif (pause_ms := await self._judge(queue, call)) is not None:
                    return pause_ms
            uptime_ms = self._uptime_ms()
            if uptime_ms > end_ms and self._ready:
                break
            in_a_row += 1
            if in_a_row == CALLS_IN_A_ROW_MAX:
                in_a_row = 0
                await asyncio.sleep(0)
                uptime_ms = self._uptime_ms()
        return None

    def _end_turn(self, queue: Queue, pause_ms: int | None) -> None:
        """End the turn. If a thread is still in the listener, which isn't waited for any more, the queue stays busy."""
        if self._plain is None or not self._plain.is_calling(queue):
            self._driver.carry_out(queue, queue.turn_ended(pause_ms, self._uptime_ms()))

    async def _call(self, queue: Queue, uptime_ms: UptimeMs) -> OrderedCall:
        """Await one call of the listener."""
        own = asyncio.current_task()
        messages = queue.policy.take(self._settings.consume_message_batch_max_size)
        context = OrderedContext(queue.queue, queue.max_offset)
        for message in messages:
            message.consume_started_ms = uptime_ms
        try:
            call = OrderedCall(messages, context, await self._listener(messages, context))
        except BaseException as error:
            if ends_consumer(error, self._pool.is_leaving, own):
                raise
            call = OrderedCall(messages, context, None, error)
        call.took_ms = self._uptime_ms() - uptime_ms
        return call

    async def _visit(self, queue: Queue) -> list[OrderedCall]:
        """Call the listener in a thread, several times if the calls are fast."""
        assert self._plain is not None
        batch_max = self._settings.consume_message_batch_max_size
        batches = [batch for _ in range(CALLS_PER_VISIT_MAX) if (batch := queue.policy.take(batch_max))]
        try:
            calls, called = await self._plain.visit(queue, batches)
        except BaseException:
            self.settle()  # The visit is no longer waited for, and what isn't committed now is consumed again.
            raise
        left = [message for batch in batches[called:] for message in batch]
        if left:
            queue.policy.put_back(left)
        return calls

    # -- results -------------------------------------------------------------------------------------------------

    def _succeeded(self, queue: Queue, call: OrderedCall) -> None:
        """Process a plain success, which doesn't count if the queue is lost."""
        if not queue.is_dropped or queue.policy.is_given_away:
            queue.tally.ok += len(call.messages)
            self._commit(queue, call)

    async def _judge(self, queue: Queue, call: OrderedCall) -> int | None:
        """Process a result of the listener. Return the pause the queue needs; None for none."""
        if queue.is_dropped and not queue.policy.is_given_away:
            return None
        status = self._status(call)
        verdict = decide(status, call.context.auto_commit)
        if status in (OrderedStatus.SUCCESS, OrderedStatus.COMMIT):
            queue.tally.ok += len(call.messages)
        elif verdict is OrderedVerdict.SUSPEND:
            queue.tally.failed += len(call.messages)
        if verdict is OrderedVerdict.SUSPEND:
            verdict = await self._suspend(queue, call)
        if verdict is OrderedVerdict.COMMIT:
            self._commit(queue, call)
        elif verdict is OrderedVerdict.ROLL_BACK:
            queue.policy.roll_back()
        if verdict in (OrderedVerdict.COMMIT, OrderedVerdict.KEEP):
            return None
        return self._suspension_ms(call.context)

    def _suspension_ms(self, context: OrderedContext) -> int:
        """Return how long the queue pauses."""
        wanted_ms = number_of(context.suspend_current_queue_time_ms)
        if wanted_ms is None:
            self._faults.set_wrong(
                "suspend_current_queue_time_ms", context.suspend_current_queue_time_ms, AS_IN_SETTINGS
            )
            wanted_ms = AS_IN_SETTINGS
        context.suspend_current_queue_time_ms = wanted_ms
        return suspension_ms(context, self._settings.suspend_current_queue_time_ms)

    def _status(self, call: OrderedCall) -> OrderedStatus:
        """Return the listener's status. A value that isn't a status means that the messages are consumed again.

        Raises: an exception of the listener's thread that ends the consumer.
        """
        status: OrderedStatus = call.status
        if type(status) is not OrderedStatus:
            if call.error is not None:
                if isinstance(call.error, KeyboardInterrupt):
                    raise call.error
                self._faults.raised(call.error)
            elif status is not None:
                self._faults.answered(status, taken_for=OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT.name)
            return OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        if call.context.auto_commit and status in (OrderedStatus.COMMIT, OrderedStatus.ROLLBACK):
            self._faults.answered(
                status.name, taken_for=f"{OrderedStatus.SUCCESS.name}: not allowed while auto_commit is on"
            )
        return status

    async def _suspend(self, queue: Queue, call: OrderedCall) -> OrderedVerdict:
        """Consume messages of a call again after a pause; those that failed too often are sent to the dead letters."""
        times_max = self._settings.ordered_retries_max
        again, exhausted = split_failed(call.messages, times_max)
        for message in exhausted:
            try:
                await self._give_up(message, times_max)
            except StaticfireError as error:
                log.warning("message_kept", group=self._group, message_id=message.message_id, reason=str(error))
                again.append(message)
        if not again:
            return OrderedVerdict.COMMIT if call.context.auto_commit else OrderedVerdict.KEEP
        for message in again:
            message.reconsume_times += 1
        queue.policy.put_back(again)
        return OrderedVerdict.SUSPEND

    def _commit(self, queue: Queue, call: OrderedCall) -> None:
        """Commit up to this call: the visit has made more calls, which may have failed."""
        offset = queue.policy.commit(call.messages[-1])
        self._driver.carry_out(queue, queue.removed(offset, self._uptime_ms(), may_go_back=True))
