"""Which queue the next message of a topic goes to. Pure. RocketMQ: TopicPublishInfo.selectOneMessageQueue.

Round robin over the queues that can be written. A retry goes to another broker than the attempt before where there
is one, and no message goes to a broker that could not be reached a moment ago while there are others.
"""

from collections.abc import Collection

from staticfire.client.queues import MessageQueue


class QueueChoice:
    """The writable queues of one topic and whose turn it is."""

    __slots__ = ("queues", "turn")

    def __init__(self, queues: list[MessageQueue], turn: int) -> None:
        """`turn`: where to begin; random, so that many producers don't all begin at the same queue."""
        self.queues = queues
        self.turn = turn

    def next(self, avoided: Collection[str] = ()) -> MessageQueue:
        """Return the next queue, one whose broker isn't `avoided` if there is any."""
        queues = self.queues
        for _ in range(len(queues) if avoided else 0):
            self.turn += 1
            queue = queues[self.turn % len(queues)]
            if queue.broker_name not in avoided:
                return queue
        self.turn += 1
        return queues[self.turn % len(queues)]
