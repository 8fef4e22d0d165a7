"""How far a program has polled, and how much of that is committed. RocketMQ: AssignedMessageQueue.

A poll means that the messages of earlier polls are done. So a position has four stages:

    polled    returned by the latest poll; the program is working on it
    done      another poll has begun since
    noted     committed: by the program, or, with auto_commit, every few seconds if it is done
    stored    the program waited until the broker, or the local file, had it

Only noted offsets are stored, in the consumer's normal offset store. Offsets that were only read are never written
back, because another client may have changed them meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.offsets.consume_from import NO_OFFSET
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.runtime.connection import Connection


class PolledOffsets:
    """The offset store of one lite pull consumer."""

    def __init__(self, beneath: OffsetStore, is_auto: bool) -> None:
        """`beneath`: where offsets are stored. `is_auto`: when a queue is given away, commit what is done."""
        self._beneath = beneath
        self._is_auto = is_auto
        self._positions: dict[MessageQueue, int] = {}
        self._polled: dict[MessageQueue, None] = {}
        self._done: dict[MessageQueue, int] = {}
        self._noted: dict[MessageQueue, None] = {}
        self._stored: dict[MessageQueue, int] = {}

    # -- polling and committing ----------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """Return where the next poll of a queue continues; -1 before the first."""
        return self._positions.get(queue, NO_OFFSET)

    def noted(self, queue: MessageQueue) -> int:
        """Return what this consumer has committed itself; -1 for nothing."""
        return self._beneath.memory(queue) if queue in self._noted else NO_OFFSET

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset; None if there is none. Raises: BrokerAnswer, NetworkError."""
        noted = self.noted(queue)
        queue_offset = noted if noted >= 0 else await self._beneath.stored(queue)
        return queue_offset if queue_offset >= 0 else None

    def poll_begins(self) -> None:
        """Mark everything polled until now as done."""
        if self._polled:
            for queue in self._polled:
                self._done[queue] = self._positions[queue]
            self._polled.clear()

    def note_done(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Commit what is done: of all queues, or of some. Brokers get it soon."""
        for queue in list(self._done if queues is None else queues):
            if queue in self._done:
                self.note({queue: self._done.pop(queue)})
                self._beneath.drained(queue)

    def note(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets, which may go back. `store` or `persist` stores them."""
        for queue, queue_offset in offsets.items():
            # It replaces what earlier polls would have committed later.
            self._done.pop(queue, None)
            self._beneath.update(queue, queue_offset, increase_only=False)
            self._noted[queue] = None

    def uncommitted(self) -> dict[MessageQueue, int]:
        """Return the positions of the queues that aren't committed, or not known to be stored."""
        positions = self._positions
        return {
            queue: positions[queue]
            for queue in sorted(positions)
            if not positions[queue] == self.noted(queue) == self._stored.get(queue, NO_OFFSET)
        }

    # -- as an offset store --------------------------------------------------------------------------------------

    async def load(self) -> None:
        await self._beneath.load()

    def memory(self, queue: MessageQueue) -> int:
        return self._beneath.memory(queue)

    async def stored(self, queue: MessageQueue) -> int:
        return await self._beneath.stored(queue)

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        """Note that a queue was polled up to `offset`."""
        self._positions[queue] = offset
        self._polled[queue] = None

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Commit an offset that no poll has reached. Earlier polls of the queue don't count any more."""
        self._forget_polls(queue)
        self._beneath.move(queue, offset)
        self._noted[queue] = None

    def drained(self, queue: MessageQueue) -> None:
        """Do nothing: polling all messages doesn't commit them."""

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        return 0

    def pull_failed(self, queue: MessageQueue) -> None:
        """Do nothing: pulls contain no offsets."""

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        await self._beneath.persist([queue for queue in queues if queue in self._noted])

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        """Store what is committed; with auto_commit commit first what is done, so that the next owner starts there."""
        if self._is_auto:
            self.note_done(queues)
        await self._beneath.hand_over([queue for queue in queues if queue in self._noted])

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        offsets = {queue: self.noted(queue) for queue in queues if queue in self._noted}
        await self._beneath.store(list(offsets))
        for queue in self._noted.keys() & offsets.keys():  # Others were given away meanwhile.
            self._stored[queue] = offsets[queue]

    def topic_is_gone(self, queue: MessageQueue, answered_by: str) -> None:
        self._forget_polls(queue)
        self._beneath.topic_is_gone(queue, answered_by)
        self._noted[queue] = None

    def forget(self, queue: MessageQueue) -> None:
        self._forget_polls(queue)
        self._beneath.forget(queue)

    def _forget_polls(self, queue: MessageQueue) -> None:
        for table in (self._positions, self._polled, self._done, self._noted, self._stored):
            table.pop(queue, None)
