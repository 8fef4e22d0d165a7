"""Locks of the queues of an ordered consumer: acquired, renewed, lost, released.
RocketMQ: RebalancePushImpl, ConsumeMessageOrderlyService.lockMQPeriodically.

While this consumer works on a queue, no other client may. So a queue is locked at its broker before it is taken, and
the lock is renewed until no worker is busy with it. A lock is trusted for 30 s after its last renewal (brokers keep it
for 60), and only while the connection it was granted on is open: a broker that restarts has lost its locks. When the
lock is granted again, the stored offset shows whether another client has consumed meanwhile. If so, the cached messages
are worthless, and the queue is taken again.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.client.consume.membership.queue_locks import LockOutcome, LockRequests
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.queues.queue_driver import Driver
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("client")

Queue = AssignedQueue[OrderedPolicy]

# The pause before the next request for a queue that another client has locked. RocketMQ: 500. Our brokers notify
# clients when it is unlocked.
REFUSED_PAUSE_MS = 250
# The pause before locks are requested again whose broker didn't respond. RocketMQ waits for its next round (20 s).
RENEW_PAUSE_MS = 1_000
# How long no new queue is taken from a broker whose connection was lost and is back. If it restarted it has lost its
# locks, and the previous holders must get theirs first.
RECLAIM_MS = 2_000


class NoLocks:
    """For consumers that need no locks."""

    @asynccontextmanager
    async def locked(self, queues: Sequence[MessageQueue]) -> AsyncIterator[Mapping[MessageQueue, HeldLock | None]]:
        """Allow all of them."""
        yield dict.fromkeys(queues)

    async def release(self, queues: Sequence[AssignedQueue[Any]]) -> None:
        """Do nothing."""

    async def settle(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class LockKeeper:
    """The locks of one consumer. `_asking` keeps lock and unlock requests from overtaking each other."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        table: Mapping[MessageQueue, Queue],
        driver: Driver,
        spawn: Spawn,
    ) -> None:
        """`table`: the queues that the consumer owns. It changes while this object uses it."""
        self._state = state
        self._client = client
        self._table = table
        self._driver = driver
        self._locks = LockRequests(state.group, client, state.settings.lock_timeout_ms)
        self._questions = QueueOffsets(client, state.settings.offset_timeout_ms)
        self._uptime_ms = client.machine.clock.uptime_ms
        self._asking = asyncio.Lock()
        # A warning was logged for these queues. Never iterated.
        self._refused: set[MessageQueue] = set()
        # By address: the time since which a lost broker is back.
        self._back_ms: dict[str, float] = {}
        self._again: asyncio.TimerHandle | None = None
        self._renewal = Wakeup()
        client.broker_lost.append(self._broker_lost)
        client.broker_connected.append(self._broker_connected)
        spawn(self._renew_loop(), f"queue locks of {state.group}")

    # -- taking --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def locked(self, queues: Sequence[MessageQueue]) -> AsyncIterator[Mapping[MessageQueue, HeldLock | None]]:
        """Lock those queues that no other client has. Unlock those of them that aren't in the table afterwards."""
        async with self._asking:
            free = [queue for queue in queues if queue not in self._table and self._may_take(queue)]
            if self._state.is_over:
                yield {}
                return
            try:
                outcome = await self._locks.lock(free)
                live_ms = self._state.settings.lock_max_live_time_ms
                granted = [queue for queue in free if queue in outcome.granted]
                yield {queue: HeldLock(live_ms, outcome.requested_ms) for queue in granted}
            except asyncio.CancelledError:
                # A broker may have granted locks whose response isn't waited for any more.
                await self._unlock_unused(free)
                raise
            await self._unlock_unused(granted)
        self._tell_refused(free, outcome)
        if len(free) < len(queues) or outcome.refused:
            self._take_later()

    async def _unlock_unused(self, queues: Sequence[MessageQueue]) -> None:
        unused = [queue for queue in queues if queue not in self._table]
        if unused:
            await self._locks.unlock(unused)

    def _may_take(self, queue: MessageQueue) -> bool:
        address = self._locks.address(queue.broker_name)
        if address is None or address not in self._back_ms:
            return True
        uptime_ms = self._uptime_ms()
        if self._back_ms[address] == math.inf and self._client.pool.open_connection(address) is not None:
            self._back_ms[address] = uptime_ms
        return uptime_ms >= self._back_ms[address] + RECLAIM_MS

    def _tell_refused(self, queues: list[MessageQueue], outcome: LockOutcome) -> None:
        self._refused -= outcome.granted
        new = [queue for queue in queues if queue in outcome.refused and queue not in self._refused]
        self._refused.update(new)
        if new:
            log.warning("queues_locked_by_others", group=self._state.group, queues=[str(queue) for queue in new])

    def _take_later(self) -> None:
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(REFUSED_PAUSE_MS / 1000, self._take_again)

    def _take_again(self) -> None:
        self._again = None
        if not self._state.is_over:
            RebalanceLoop.of(self._client).wake()

    # -- giving back ---------------------------------------------------------------------------------------------

    async def release(self, queues: Sequence[Queue]) -> None:
        """Unlock queues, except those whose listener call is no longer waited for."""
        over = [held.queue for held in queues if not held.policy.is_busy]
        if len(over) < len(queues):
            # The thread can't be stopped. The next owner of the queue would work at the same time.
            log.warning("queues_stay_locked", group=self._state.group, queues=len(queues) - len(over))
        if over:
            async with self._asking:
                await self._locks.unlock(over)

    async def settle(self) -> None:
        """Wait for the lock requests in flight. What they lock for a consumer that is leaving is unlocked at once."""
        async with self._asking:
            pass

    def stop(self) -> None:
        """Stop acquiring locks."""
        self._client.broker_lost.remove(self._broker_lost)
        self._client.broker_connected.remove(self._broker_connected)
        if self._again is not None:
            self._again.cancel()

    # -- renewing ------------------------------------------------------------------------------------------------

    async def _renew_loop(self) -> None:
        pause_ms = interval_ms = self._state.settings.lock_interval_ms
        while True:
            await self._renewal.wait(pause_ms)
            pause_ms = interval_ms if await self._renew() else RENEW_PAUSE_MS

    async def _renew(self) -> bool:
        """Renew all locks that are in use. Return whether every broker responded."""
        async with self._asking:
            used = {queue: held for queue, held in self._table.items() if not held.is_dropped or held.policy.is_busy}
            outcome = await self._locks.lock(used)
        done = True
        for queue, held in used.items():
            if self._table.get(queue) is not held:
                continue
            if queue in outcome.refused:
                self._lose(held)
            elif queue in outcome.granted:
                done = await self._renewed(held, outcome.requested_ms) and done
            else:
                done = False
        return done

    async def _renewed(self, held: Queue, requested_ms: UptimeMs) -> bool:
        """Trust a lock again, or note that another client has consumed meanwhile. Return False if that is unclear."""
        if not held.policy.is_sure(self._uptime_ms()):
            queue = held.queue
            try:
                stored = await self._questions.committed(self._state.group, queue)
            except StaticfireError as error:
                log.warning("queue_stays_idle", group=self._state.group, queue=str(queue), reason=str(error))
                return False
            if stored is not None and stored > held.policy.position:
                self._lose(held)
                return True
        uptime_ms = self._uptime_ms()
        is_regained = not held.policy.is_trusted(uptime_ms)
        held.policy.lock_granted(requested_ms)
        if is_regained and not held.is_dropped:
            log.info("queue_locked_again", group=self._state.group, queue=str(held.queue))
            turn = held.policy.next_turn()
            self._driver.carry_out(held, ([] if turn is None else [turn]) + held.hurry(uptime_ms))
        return True

    def _lose(self, held: Queue) -> None:
        """Give up a queue that another client owns or owned."""
        log.warning("queue_lock_lost", group=self._state.group, queue=str(held.queue))
        held.policy.lock_lost()
        self._driver.carry_out(held, held.revoked(self._uptime_ms()))

    # -- connections ---------------------------------------------------------------------------------------------

    def _broker_lost(self, address: str) -> None:
        """Stop trusting the locks of a broker that may be restarting."""
        broker_name = self._locks.granted_by.get(address)
        if broker_name is not None:
            self._back_ms[address] = math.inf
            for queue, held in self._table.items():
                if queue.broker_name == broker_name:
                    held.policy.distrust()
            self._renewal.wake()

    def _broker_connected(self, _: str) -> None:
        self._renewal.wake()
