"""The queues that a consumer pops. Other members may pop them, too, so no offsets are stored and no locks released.

RocketMQ: RebalanceImpl.popProcessQueueTable.
"""

from collections.abc import Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.popping.pop_driver import PopDriver
from staticfire.client.consume.popping.pop_queue import PopQueue
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("client")


class PopQueues:
    """The popped queues of one consumer."""

    def __init__(self, state: ConsumerState, client: ClusterClient, driver: PopDriver) -> None:
        self.driver = driver
        self._state = state
        self._uptime_ms = client.machine.clock.uptime_ms
        self._table: dict[MessageQueue, PopQueue] = {}
        self._dropped: list[PopQueue] = []
        """Queues that aren't popped any more, as long as messages of them are here or may still arrive."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer pops, sorted."""
        return sorted(self._table)

    def find(self, queue: MessageQueue) -> PopQueue | None:
        """Return a queue that this consumer pops; None if it doesn't pop it."""
        return self._table.get(queue)

    def last_pulls(self, topic: str) -> dict[MessageQueue, UptimeMs]:
        """Return the time of the last pop of each queue of a topic."""
        return {queue: held.last_pop_ms for queue, held in self._table.items() if queue.topic == topic}

    async def take(self, queues: Sequence[MessageQueue]) -> int:
        """Start to pop queues. Return how many could be taken."""
        taken = 0
        for queue in queues:
            if self._state.is_over or queue in self._table:
                continue
            log.info("queue_popped", group=self._state.group, queue=str(queue))
            held = self._table[queue] = PopQueue(queue, self._state, self._uptime_ms())
            self.driver.carry_out(held, held.assigned(self._uptime_ms()))
            taken += 1
        return taken

    async def drop(self, queues: Sequence[MessageQueue]) -> None:
        """Stop popping queues. Messages that were popped are still consumed here."""
        for queue in queues:
            held = self._table.pop(queue, None)
            if held is not None:
                self._dropped.append(held)
                self.driver.forget(held)
                self.driver.carry_out(held, held.revoked())
        self._dropped = [held for held in self._dropped if not held.is_idle]

    def resume(self) -> None:
        """Pop every queue at once, whatever it waits for."""
        for held in list(self._table.values()):
            self.driver.carry_out(held, held.hurry(self._uptime_ms()))

    async def leave(self) -> None:
        """Make unfinished messages visible to others at once; return when brokers have responded. No listener runs."""
        for held in [*self._table.values(), *self._dropped]:
            self.driver.carry_out(held, held.left())
        await self.drop(self.queues)
        await self.driver.idle()
