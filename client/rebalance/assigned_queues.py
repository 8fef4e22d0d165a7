"""The queues that a consumer owns: taken, pulled, corrected, given away. RocketMQ: RebalanceImpl.processQueueTable.

A queue is dropped in this order: the flag first, so that nothing of it is consumed and no result counts any more; then
its offset is stored, for the next owner; then it leaves the table. It is taken in this order: whatever was known of its
offset is forgotten, the stored one is asked for, and the first pull leaves at once.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.process_queue import ProcessQueue
from staticfire.client.consume.pull_loop import PullContext, PullLoop
from staticfire.client.consume.push_settings import ConsumeFromWhere
from staticfire.client.offsets.consume_from import NO_OFFSET, IllegalStoredOffset, Start, find_start
from staticfire.client.offsets.message_time import message_ms_now
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.log import logger

log = logger("client")

HALF_AN_HOUR_MS = 30 * 60 * 1000
# How far back ConsumeFromWhere.TIMESTAMP begins when no time is given.


class HeldQueue(NamedTuple):
    """One queue with its messages and its pulls."""

    process_queue: ProcessQueue
    pulls: PullLoop


class AssignedQueues:
    """The table of one consumer."""

    def __init__(
        self, context: PullContext, pause: Callable[[int], Coroutine[Any, Any, None]], changed: Callable[[], None]
    ) -> None:
        """`changed`: called when a queue had to be given up and can be taken again."""
        self._context = context
        self._offsets = context.offsets
        self._pause = pause
        self._changed = changed
        self._queue_offsets = QueueOffsets(context.client, context.settings.offset_timeout_ms)
        self._began_ms = context.clock.wall_ms()
        self._table: dict[MessageQueue, HeldQueue] = {}
        self._lost: set[str] = set()  # Topics that a warning has told of. Never iterated.
        context.correct = self._correct_later
        context.lost = self._lose

    def __len__(self) -> int:
        return len(self._table)

    @property
    def queues(self) -> list[MessageQueue]:
        """What this consumer owns, sorted."""
        return sorted(self._table)

    @property
    def is_over(self) -> bool:
        """Whether this consumer is leaving: nothing is taken any more."""
        return self._context.is_over

    def last_pulls(self, topic: str) -> dict[MessageQueue, UptimeMs]:
        """Return when each queue of a topic was pulled last."""
        return {queue: held.process_queue.last_pull_ms for queue, held in self._table.items() if queue.topic == topic}

    def find(self, queue: MessageQueue) -> ProcessQueue | None:
        """Return what is cached of a queue."""
        held = self._table.get(queue)
        return None if held is None else held.process_queue

    async def begin(self) -> None:
        """Learn when this consumer began, in message time: only where the settings count from there."""
        settings = self._context.settings
        if settings.consume_from_where is ConsumeFromWhere.TIMESTAMP and settings.consume_timestamp_ms is None:
            self._began_ms = await message_ms_now(self._context.client)

    # -- taking --------------------------------------------------------------------------------------------------

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Begin to consume queues; return how many could be taken."""
        return sum(await asyncio.gather(*map(self._take, queues)))

    async def _take(self, queue: MessageQueue) -> bool:
        self._offsets.forget(queue)
        try:
            start = await self._start_offset(queue)
        except StaticfireError as error:
            if self._context.is_over:
                return False
            log.warning("queue_not_taken", group=self._context.group, queue=str(queue), reason=str(error))
            return False
        if self._context.is_over or queue in self._table:
            return False
        process_queue = self._new_queue(queue)
        process_queue.advance(start)
        pulls = PullLoop(self._context, process_queue, start, is_retry_topic(queue.topic))
        self._table[queue] = HeldQueue(process_queue, pulls)
        log.info("queue_taken", group=self._context.group, queue=str(queue), offset=start)
        pulls.pull()
        return True

    def _new_queue(self, queue: MessageQueue) -> ProcessQueue:
        return self._context.new_queue(queue, self._context.clock.uptime_ms())

    async def _start_offset(self, queue: MessageQueue) -> int:
        """Return where to start. Raises: StaticfireError."""
        settings = self._context.settings
        stored = await self._offsets.stored(queue)
        try:
            start = find_start(settings.consume_from_where, stored, is_retry_topic(queue.topic))
        except IllegalStoredOffset:
            self._offsets.update(queue, NO_OFFSET, increase_only=False)
            await self._offsets.hand_over([queue])
            raise
        if start is Start.QUEUE_END:
            return await self._queue_offsets.max_offset(queue)
        if start is Start.TIMESTAMP:
            since_ms = settings.consume_timestamp_ms
            return await self._queue_offsets.search_offset(
                queue, MessageMs(self._began_ms - HALF_AN_HOUR_MS) if since_ms is None else since_ms
            )
        assert isinstance(start, int)
        return start

    # -- dropping ------------------------------------------------------------------------------------------------

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Give queues away."""
        self._context.settle()
        dropped = [self._table[queue] for queue in queues if queue in self._table]
        for held in dropped:
            self._end(held)
        await self._offsets.hand_over([held.process_queue.queue for held in dropped])
        for held in dropped:
            self._remove(held)

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at these offsets in those of the queues that are owned: they are dropped and taken anew."""
        self._context.settle()
        moved = [queue for queue in offsets if queue in self._table]
        for queue in moved:
            self._end(self._table[queue])
            self._offsets.update(queue, offsets[queue], increase_only=False)
        await self.drop(moved)
        free = [queue for queue in moved if queue not in self._table]
        for queue in free:  # Once more: an ordered listener that ran meanwhile has counted.
            self._offsets.update(queue, offsets[queue], increase_only=False)
        await self._offsets.hand_over(free)
        self._changed()

    def _end(self, held: HeldQueue) -> None:
        held.process_queue.dropped = True
        held.pulls.stop()
        log.info("queue_dropped", group=self._context.group, queue=str(held.process_queue.queue))

    def _remove(self, held: HeldQueue) -> None:
        queue = held.process_queue.queue
        if self._table.get(queue) is held:
            del self._table[queue]
            self._offsets.forget(queue)
            held.process_queue.clear()

    def _correct_later(self, pulls: PullLoop, offset: int) -> None:
        """Give up a queue whose offset is illegal, and put that right when nobody works on it any more."""
        held = self._table.get(pulls.queue)
        if held is not None and held.pulls is pulls:
            self._end(held)
            self._context.spawn(self._correct(held, offset), f"correct {pulls.queue}")

    async def _correct(self, held: HeldQueue, offset: int) -> None:
        queue = held.process_queue.queue
        await self._pause(self._context.settings.offset_illegal_pause_ms)
        if self._table.get(queue) is held:
            self._offsets.update(queue, offset, increase_only=False)
            await self._offsets.persist([queue])
            self._remove(held)
            self._changed()

    def _lose(self, pulls: PullLoop) -> None:
        """Forget a queue whose topic is gone, and take it anew in a while.

        If the topic comes back, its offsets begin again: what was known of them would skip its first messages.
        """
        held = self._table.get(pulls.queue)
        if held is None or held.pulls is not pulls:
            return
        topic = pulls.queue.topic
        if topic not in self._lost:
            self._lost.add(topic)
            log.warning("topic_is_gone", group=self._context.group, topic=topic, broker=pulls.queue.broker_name)
        self._end(held)
        self._offsets.forget(pulls.queue)
        self._context.spawn(self._forget_later(held), f"forget {pulls.queue}")

    async def _forget_later(self, held: HeldQueue) -> None:
        await self._pause(self._context.client.settings.rebalance_retry_ms)
        self._remove(held)
        self._changed()

    # -- all of them ---------------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Store the offsets of all queues."""
        await self._offsets.persist(self.queues)

    def resume(self) -> None:
        """Pull again at once, whatever each queue waits for."""
        for held in self._table.values():
            held.pulls.pull_now()

    def stop_pulling(self) -> None:
        """Pull nothing more. What is cached can be consumed."""
        self._context.is_over = True
        for held in self._table.values():
            held.pulls.stop()

    async def leave(self) -> None:
        """Give everything away."""
        await self._let_pulls_commit()
        await self.drop(self.queues)

    async def _let_pulls_commit(self) -> None:
        """Wait for pulls under way that carry an older offset: RocketMQ stores what comes last, not what is most.

        Ours does one thing of a connection after the other.
        """
        if self._context.client.settings.codec_byte == NATIVE:
            return
        self._context.settle()
        behind = [
            held.pulls
            for queue, held in self._table.items()
            if 0 < held.pulls.commit_under_way < self._offsets.memory(queue)
        ]
        await asyncio.gather(*(pulls.overtake() for pulls in behind))
