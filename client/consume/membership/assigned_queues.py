"""The queues that a consumer owns: taken, moved, given away. RocketMQ: RebalanceImpl.processQueueTable.

A queue is taken in these steps: it is locked; its known offset is forgotten, and the stored one is queried; the first
pull is sent at once. It is dropped in these steps: the flag is set, so that nothing of it is consumed and no result
counts any more; when no worker is busy with it, its offset is stored for the next owner; it is unlocked; it is removed
from the table. client/consume/queues/queue_decisions.py decides when each step happens.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.lock_keeper import LockKeeper, NoLocks
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.instructions import Leave
from staticfire.client.consume.queues.policy import Policy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.queues.queue_driver import Driver, Listening, Queue, QueueDriver
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.client.offsets.queue_start import QueueStarts
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger
from staticfire.runtime.service import Spawn

log = logger("client")

MakePolicy = Callable[[ProcessQueue, HeldLock | None], Policy]


class AssignedQueues:
    """The queues of one consumer."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        offsets: OffsetStore,
        listen: Callable[[Driver], Listening],
        make_policy: MakePolicy,
        is_locking: bool,
        spawn: Spawn,
    ) -> None:
        """`listen`: makes the listener's part. `make_policy`: makes the policy for the messages of a queue."""
        self._state = state
        self._client = client
        self._offsets = offsets
        self._make_policy = make_policy
        self._spawn = spawn
        self._uptime_ms = client.machine.clock.uptime_ms
        self._table: dict[MessageQueue, Queue] = {}
        self._leaving: dict[asyncio.Task[None], None] = {}
        self.starts = QueueStarts(client, state.settings, offsets)
        self.driver = QueueDriver(state, client, offsets, listen, self._leave_soon, spawn)
        self._locks = LockKeeper(state, client, self._table, self.driver, spawn) if is_locking else NoLocks()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer owns, sorted."""
        return sorted(self._table)

    @property
    def is_over(self) -> bool:
        """Whether this consumer is leaving: no queue is taken any more."""
        return self._state.is_over

    def last_pulls(self, topic: str) -> dict[MessageQueue, UptimeMs]:
        """Return the time of the last pull of each queue of a topic."""
        return {queue: held.last_pull_ms for queue, held in self._table.items() if queue.topic == topic}

    def find(self, queue: MessageQueue) -> Queue | None:
        """Return a queue that this consumer owns; None if it doesn't own it."""
        return self._table.get(queue)

    # -- taking --------------------------------------------------------------------------------------------------

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Start to consume queues. Return how many could be taken."""
        async with self._locks.locked(queues) as granted:
            return sum(await asyncio.gather(*(self._take(queue, lock) for queue, lock in granted.items())))

    async def _take(self, queue: MessageQueue, lock: HeldLock | None) -> bool:
        state = self._state
        try:
            start = await self.starts.find(queue)
        except StaticfireError as error:
            if not state.is_over:
                log.warning("queue_not_taken", group=state.group, queue=str(queue), reason=str(error))
            return False
        if state.is_over or queue in self._table:
            return False
        log.info("queue_taken", group=state.group, queue=str(queue), offset=start)
        self._begin(queue, start, lock)
        return True

    def _begin(self, queue: MessageQueue, start: int, lock: HeldLock | None) -> None:
        cache = ProcessQueue(start)
        uptime_ms = self._uptime_ms()
        taken: Queue = AssignedQueue(queue, cache, self._make_policy(cache, lock), self._state, uptime_ms)
        self._table[queue] = taken
        self.driver.carry_out(taken, taken.assigned(uptime_ms))

    def restart(self, queue: MessageQueue, start: int, needed: int | None = None) -> bool:
        """Continue at an offset in an owned queue at once: no offset is stored, and no lock is requested.

        Cached messages and pulls in flight are forgotten. `needed`: where the messages begin that may not be done yet,
        if that isn't `start`. Return False if the queue isn't owned now.
        """
        held = self._table.get(queue)
        if held is None or self._state.is_over:
            return False
        held.is_dropped = True
        self.driver.forget(held)
        held.cache.clear()
        self._begin(queue, start, None)
        if needed is not None:
            self._table[queue].start_offset = needed
        return True

    # -- giving away ---------------------------------------------------------------------------------------------

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Give queues away; those with a running listener call that must end first, after it."""
        await self._revoke(dict.fromkeys(queues))

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, in the queues that are owned: they are dropped and taken again."""
        await self._revoke(offsets)
        RebalanceLoop.of(self._client).wake()

    async def move_to_time(self, stored_ms: int) -> None:
        """Continue with messages stored at this time or later, without retries. Raises: BrokerAnswer, NetworkError."""
        queues = [queue for queue in self.queues if not is_retry_topic(queue.topic)]
        offsets = await asyncio.gather(*(self.starts.at_time(queue, stored_ms) for queue in queues))
        await self.move(dict(zip(queues, offsets, strict=True)))

    async def _revoke(self, offsets: Mapping[MessageQueue, int | None]) -> None:
        """Give queues away, with the offsets to store if they are given."""
        self.driver.listening.settle()
        uptime_ms, leaving = self._uptime_ms(), []
        for queue, queue_offset in offsets.items():
            held = self._table.get(queue)
            if held is None:
                continue
            for instruction in held.revoked(uptime_ms, self._state.is_over, queue_offset):
                if isinstance(instruction, Leave):
                    leaving.append((held, instruction))
                else:
                    self.driver.carry_out(held, [instruction])
        if leaving:
            task = self._start_to_let_go(leaving)
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                task.add_done_callback(self._may_take_again)
                raise

    def _leave_soon(self, queue: Queue, leave: Leave) -> None:
        """Remove a queue whose pause or listener call is over. After that it can be taken again."""
        self._start_to_let_go([(queue, leave)]).add_done_callback(self._may_take_again)

    def _start_to_let_go(self, leaving: list[tuple[Queue, Leave]]) -> asyncio.Task[None]:
        """Let go in a task of the consumer: if a caller is cancelled, its queues must not stay dropped in the table."""
        task = self._spawn(self._let_go(leaving), f"give away {', '.join(str(held.queue) for held, _ in leaving)}")
        self._leaving[task] = None
        task.add_done_callback(self._leaving.pop)
        return task

    def _may_take_again(self, _: asyncio.Task[None]) -> None:
        RebalanceLoop.of(self._client).wake()

    async def _let_go(self, leaving: list[tuple[Queue, Leave]]) -> None:
        """Store offsets, unlock, remove from the table."""
        uptime_ms, sure = self._uptime_ms(), []
        for held, leave in leaving:
            if leave.queue_offset is not None:
                self._offsets.move(held.queue, leave.queue_offset)
            if leave.queue_offset is not None or held.policy.is_sure(uptime_ms):
                sure.append(held.queue)
        await self._offsets.hand_over(sure)
        await self._locks.release([held for held, _ in leaving])
        for held, _ in leaving:
            self.driver.forget(held)
            if self._table.get(held.queue) is held:
                del self._table[held.queue]
                self._offsets.forget(held.queue)
                held.cache.clear()

    # -- all of them ---------------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Store the offsets of the queues that no other client can own."""
        self.driver.listening.settle()
        uptime_ms = self._uptime_ms()
        await self._offsets.persist([queue for queue in self.queues if self._table[queue].policy.is_sure(uptime_ms)])

    def resume(self) -> None:
        """Pull every queue at once, whatever it waits for."""
        for queue in list(self._table):
            self.hurry(queue)

    def hurry(self, queue: MessageQueue) -> None:
        """Pull one queue at once, if it is owned and pauses."""
        held = self._table.get(queue)
        if held is not None:
            self.driver.carry_out(held, held.hurry(self._uptime_ms()))

    def limits_changed(self) -> None:
        """Look now for messages that took too long."""
        for held in list(self._table.values()):
            held.policy.limits_changed(self._uptime_ms())
            self.driver.look(held, self._uptime_ms())

    def stop_pulling(self) -> None:
        """Stop pulling. Cached messages may still be consumed."""
        self._state.is_over = True

    def detach(self) -> None:
        """Follow the connections of the client no longer."""
        self._locks.stop()

    async def leave(self) -> None:
        """Give all queues away."""
        # Our brokers process the requests of a connection one after another, so no wait is needed there.
        if self._client.settings.codec_byte != NATIVE:
            await self.driver.let_pulls_commit(self._table.values())
        await self.drop(self.queues)
        if self._leaving:
            await asyncio.wait(list(self._leaving))
        await self._locks.settle()
