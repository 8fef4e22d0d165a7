"""The queues that a consumer owns: taken, moved, given away. RocketMQ: RebalanceImpl.processQueueTable.

A queue is dropped in this order: the flag first, so that nothing of it is consumed and no result counts any more; as
soon as nobody is busy with it, its offset is stored for the next owner; then it is unlocked; then it leaves the table.
It is taken in this order: it is locked; whatever was known of its offset is forgotten, the stored one is asked for, and
the first pull leaves at once. When each of these has its time says the queue: client/consume/queues/queue_decisions.py.
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
    """The table of one consumer."""

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
        """`listen`: makes the listener's part. `make_policy`: how the messages of a queue are consumed."""
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
        """What this consumer owns, sorted."""
        return sorted(self._table)

    @property
    def is_over(self) -> bool:
        """Whether this consumer is leaving: nothing is taken any more."""
        return self._state.is_over

    def last_pulls(self, topic: str) -> dict[MessageQueue, UptimeMs]:
        """Return when each queue of a topic was pulled last."""
        return {queue: held.last_pull_ms for queue, held in self._table.items() if queue.topic == topic}

    def find(self, queue: MessageQueue) -> Queue | None:
        """Return a queue that this consumer owns."""
        return self._table.get(queue)

    # -- taking --------------------------------------------------------------------------------------------------

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Begin to consume queues; return how many could be taken."""
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

    def restart(self, queue: MessageQueue, start: int) -> bool:
        """Go on at once at an offset in a queue that is owned: nothing is stored for it, and no lock is asked for.

        What is cached or under way is forgotten. Return False where it isn't owned now.
        """
        held = self._table.get(queue)
        if held is None or self._state.is_over:
            return False
        held.is_dropped = True
        self.driver.forget(held)
        held.cache.clear()
        self._begin(queue, start, None)
        return True

    # -- giving away ---------------------------------------------------------------------------------------------

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Give queues away; those whose listener has to end first, when it has."""
        await self._revoke(dict.fromkeys(queues))

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets in those of the queues that are owned: they are dropped and taken anew."""
        await self._revoke(offsets)
        RebalanceLoop.of(self._client).wake()

    async def move_to_time(self, stored_ms: int) -> None:
        """Go on with what was stored at that time or later, but for retries. Raises: BrokerAnswer, NetworkError."""
        queues = [queue for queue in self.queues if not is_retry_topic(queue.topic)]
        offsets = await asyncio.gather(*(self.starts.at_time(queue, stored_ms) for queue in queues))
        await self.move(dict(zip(queues, offsets, strict=True)))

    async def _revoke(self, offsets: Mapping[MessageQueue, int | None]) -> None:
        """Give queues away, with the offsets to store if they are told."""
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
        await self._let_go(leaving)

    def _leave_soon(self, queue: Queue, leave: Leave) -> None:
        """Let a queue go that had to wait for its time, or for its listener; then it can be taken anew."""
        task = self._spawn(self._let_go_and_tell(queue, leave), f"give away {queue.queue}")
        self._leaving[task] = None
        task.add_done_callback(self._leaving.pop)

    async def _let_go_and_tell(self, queue: Queue, leave: Leave) -> None:
        await self._let_go([(queue, leave)])
        RebalanceLoop.of(self._client).wake()

    async def _let_go(self, leaving: list[tuple[Queue, Leave]]) -> None:
        """Store offsets, unlock, remove."""
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
        """Store the offsets of the queues that nobody else can have."""
        uptime_ms = self._uptime_ms()
        await self._offsets.persist([queue for queue in self.queues if self._table[queue].policy.is_sure(uptime_ms)])

    def resume(self) -> None:
        """Pull again at once, whatever each queue waits for."""
        for queue in list(self._table):
            self.hurry(queue)

    def hurry(self, queue: MessageQueue) -> None:
        """Pull one queue again at once, if it is owned and waits for something."""
        held = self._table.get(queue)
        if held is not None:
            self.driver.carry_out(held, held.hurry(self._uptime_ms()))

    def limits_changed(self) -> None:
        """Look now whether messages have taken too long."""
        for held in list(self._table.values()):
            held.policy.limits_changed(self._uptime_ms())
            self.driver.carry_out(held, held.time(self._uptime_ms()))

    def stop_pulling(self) -> None:
        """Pull nothing more. What is cached can be consumed."""
        self._state.is_over = True

    async def leave(self) -> None:
        """Give everything away."""
        self._locks.stop()
        if self._client.settings.codec_byte != NATIVE:  # Ours does one thing of a connection after the other.
            await self.driver.let_pulls_commit(self._table.values())
        await self.drop(self.queues)
        if self._leaving:
            await asyncio.wait(list(self._leaving))
