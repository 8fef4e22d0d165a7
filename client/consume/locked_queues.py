"""The queues of a consumer that consumes in order: each is locked at its broker before it is pulled.
RocketMQ: RebalancePushImpl, ConsumeMessageOrderlyService.lockMQPeriodically.

Nobody else works on a queue while this consumer does. So a queue is given away only when the listener is over: then its
offset is stored, then it is unlocked, then it leaves the table; meanwhile its lock is renewed. A lock is trusted for
30 s from its last renewal (brokers keep it for 60), and as long as the connection lives over which it was had: a broker
that restarts has forgotten its locks. When it can be had again, the stored offset tells whether somebody else has been
at work; then what is cached here is worthless, and the queue is taken anew.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.client.consume.ordered_queue import NOT_LOCKED, OrderedQueue
from staticfire.client.consume.pull_loop import PullContext
from staticfire.client.rebalance.assigned_queues import AssignedQueues, HeldQueue
from staticfire.client.rebalance.queue_locks import BROKER_LOCK_MS, LockOutcome, QueueLocks
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("client")

REFUSED_PAUSE_MS = 250
# Until a queue is asked for again that somebody else holds. RocketMQ: 500. Our brokers tell when it is unlocked.
RENEW_PAUSE_MS = 1_000
# Until locks are asked for again whose broker didn't answer. RocketMQ waits for its next round, 20 s later.
RECLAIM_MS = 2_000
# How long nothing new is taken from a broker that was lost and is back: if it restarted it has forgotten its locks, and
# whoever held one has to be first.


class LockedQueues(AssignedQueues):
    """The table of one consumer in CLUSTERING. `_asking` keeps lock and unlock requests from overtaking each other."""

    def __init__(
        self, context: PullContext, pause: Callable[[int], Coroutine[Any, Any, None]], changed: Callable[[], None]
    ) -> None:
        super().__init__(context, pause, changed)
        self._locks = QueueLocks(context.group, context.client, context.settings.lock_timeout_ms)
        self._live_ms = context.settings.lock_max_live_time_ms
        self._uptime_ms = context.clock.uptime_ms
        self._asking = asyncio.Lock()
        self._asked_ms = UptimeMs(0)
        self._leaving: set[MessageQueue] = set()  # Dropped; their listener runs, or they are being unlocked.
        self._refused: set[MessageQueue] = set()  # A warning has told of them. Never iterated.
        self._back_ms: dict[str, float] = {}  # By address, since when a broker that was lost is back.
        self._again: asyncio.TimerHandle | None = None
        self._renewal = Wakeup()
        context.client.broker_lost.append(self._broker_lost)
        context.client.broker_connected.append(self._broker_connected)
        context.spawn(self._renew_loop(), f"queue locks of {context.group}")

    # -- taking --------------------------------------------------------------------------------------------------

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Lock queues and begin to consume those that nobody else has; return how many that are."""
        async with self._asking:
            free = [queue for queue in queues if queue not in self._table and self._may_take(queue)]
            if self.is_over:
                return 0
            outcome = await self._locks.lock(free)
            self._asked_ms = outcome.asked_ms
            granted = [queue for queue in free if queue in outcome.granted]
            taken = await super().take(granted)
            unused = [queue for queue in granted if queue not in self._table]
            if unused:
                await self._locks.unlock(unused)
        self._tell_refused(free, outcome)
        if len(free) < len(queues) or outcome.refused:
            self._take_later()
        return taken

    def _may_take(self, queue: MessageQueue) -> bool:
        address = self._locks.address(queue.broker_name)
        if address is None or address not in self._back_ms:
            return True
        uptime_ms = self._uptime_ms()
        if self._back_ms[address] == math.inf and self._context.client.pool.open_connection(address) is not None:
            self._back_ms[address] = uptime_ms
        return uptime_ms >= self._back_ms[address] + RECLAIM_MS

    def _new_queue(self, queue: MessageQueue) -> OrderedQueue:
        process_queue = OrderedQueue(queue, self._uptime_ms())
        process_queue.locked_until_ms = self._asked_ms + self._live_ms
        return process_queue

    def _tell_refused(self, queues: list[MessageQueue], outcome: LockOutcome) -> None:
        self._refused -= outcome.granted
        new = [queue for queue in queues if queue in outcome.refused and queue not in self._refused]
        self._refused.update(new)
        if new:
            log.warning("queues_locked_by_others", group=self._context.group, queues=[str(queue) for queue in new])

    def _take_later(self) -> None:
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(REFUSED_PAUSE_MS / 1000, self._ring)

    def _ring(self) -> None:
        self._again = None
        if not self.is_over:
            self._changed()

    # -- dropping ------------------------------------------------------------------------------------------------

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Give queues away; those whose listener runs when it is over."""
        held = [held for queue in queues if (held := self._table.get(queue)) and queue not in self._leaving]
        for each in held:
            ordered(each).is_given_away = self._is_sure(ordered(each))
            self._end(each)
        running = [each for each in held if ordered(each).is_running and not self.is_over]
        for each in running:
            self._remove(each)
        await self._give_away([each for each in held if each not in running])

    def _remove(self, held: HeldQueue) -> None:
        """Let a queue that was dropped leave as soon as nobody works on it."""
        process_queue = ordered(held)
        queue = process_queue.queue
        if self._table.get(queue) is not held or queue in self._leaving:
            return
        self._leaving.add(queue)
        if process_queue.is_running:
            process_queue.idle = partial(self._let_go, held)
        else:
            self._let_go(held)

    def _let_go(self, held: HeldQueue) -> None:
        self._context.spawn(self._give_away_and_tell(held), f"give away {held.process_queue.queue}")

    async def _give_away_and_tell(self, held: HeldQueue) -> None:
        await self._give_away([held])
        self._changed()

    async def _give_away(self, held: list[HeldQueue]) -> None:
        """Store offsets, unlock, remove."""
        await self._offsets.hand_over([each.process_queue.queue for each in held if self._is_sure(ordered(each))])
        over = [each.process_queue.queue for each in held if not ordered(each).is_running]
        if len(over) < len(held):
            # Its thread can't be ended, and whoever gets the queue now would work beside it.
            log.warning("queues_stay_locked", group=self._context.group, queues=len(held) - len(over))
        if over:
            async with self._asking:
                await self._locks.unlock(over)
        for each in held:
            super()._remove(each)
            self._leaving.discard(each.process_queue.queue)

    def _is_sure(self, process_queue: OrderedQueue) -> bool:
        """Whether nobody else can have had the queue: a broker keeps a lock for longer than this client trusts it."""
        return self._uptime_ms() < process_queue.locked_until_ms - self._live_ms + BROKER_LOCK_MS

    # -- renewing ------------------------------------------------------------------------------------------------

    async def _renew_loop(self) -> None:
        pause_ms = interval_ms = self._context.settings.lock_interval_ms
        while True:
            await self._renewal.wait(pause_ms)
            pause_ms = interval_ms if await self._renew() else RENEW_PAUSE_MS

    async def _renew(self) -> bool:
        """Renew all locks that are in use; return whether every broker answered."""
        async with self._asking:
            held = {queue: each for queue, each in self._table.items() if in_use(each)}
            outcome = await self._locks.lock(held)
        done = True
        for queue, each in held.items():
            if self._table.get(queue) is not each:
                continue
            if queue in outcome.refused:
                self._lose_lock(each)
            elif queue in outcome.granted:
                done = await self._renewed(each, outcome.asked_ms) and done
            else:
                done = False
        return done

    async def _renewed(self, held: HeldQueue, asked_ms: UptimeMs) -> bool:
        """Trust a lock again, or know that somebody else was at work meanwhile; return False when neither is clear."""
        process_queue = ordered(held)
        if not self._is_sure(process_queue):
            queue = process_queue.queue
            try:
                stored = await self._queue_offsets.committed(self._context.group, queue)
            except StaticfireError as error:
                log.warning("queue_stays_idle", group=self._context.group, queue=str(queue), reason=str(error))
                return False
            if stored is not None and stored > process_queue.position:
                self._lose_lock(held)
                return True
        is_regained = not process_queue.may_pull(self._uptime_ms())
        process_queue.locked_until_ms = asked_ms + self._live_ms
        if is_regained and not process_queue.dropped:
            log.info("queue_locked_again", group=self._context.group, queue=str(process_queue.queue))
            self._context.consume(process_queue, [])
            held.pulls.pull_now()
        return True

    def _lose_lock(self, held: HeldQueue) -> None:
        """Give up a queue that somebody else works on, or has worked on."""
        process_queue = ordered(held)
        log.warning("queue_lock_lost", group=self._context.group, queue=str(process_queue.queue))
        process_queue.locked_until_ms = NOT_LOCKED
        process_queue.is_given_away = False
        if not process_queue.dropped:
            self._end(held)
        self._remove(held)

    # -- connections ---------------------------------------------------------------------------------------------

    def _broker_lost(self, address: str) -> None:
        """Trust no lock of a broker that may be restarting."""
        broker_name = self._locks.granted_by.get(address)
        if broker_name is not None:
            self._back_ms[address] = math.inf
            for queue, held in self._table.items():
                if queue.broker_name == broker_name:
                    ordered(held).locked_until_ms = NOT_LOCKED
            self._renewal.wake()

    def _broker_connected(self, _: str) -> None:
        self._renewal.wake()

    # -- all of them ---------------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Store the offsets of the queues that nobody else can have."""
        await self._offsets.persist([queue for queue in self.queues if self._is_sure(ordered(self._table[queue]))])

    async def leave(self) -> None:
        """Give everything away."""
        client = self._context.client
        client.broker_lost.remove(self._broker_lost)
        client.broker_connected.remove(self._broker_connected)
        if self._again is not None:
            self._again.cancel()
        self._leaving.clear()  # What waits for its listener has waited for long enough.
        await super().leave()


def ordered(held: HeldQueue) -> OrderedQueue:
    """Return what is cached of a queue, as what it is here."""
    assert isinstance(held.process_queue, OrderedQueue)
    return held.process_queue


def in_use(held: HeldQueue) -> bool:
    """Whether a queue has to stay locked: it is consumed, or was dropped and its listener runs still."""
    return not held.process_queue.dropped or ordered(held).is_running
