"""Which queue the next message of a topic goes to. Pure. RocketMQ: TopicPublishInfo.selectOneMessageQueue.

Round robin over the queues that can be written. A retry goes to another broker than the attempt before where there
is one, and no message goes to a broker that could not be reached a moment ago, or was slow, while there are others.
"""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from staticfire.client.cluster.queues import MessageQueue

Way = TypeVar("Way")


class QueueChoice(Generic[Way]):
    """The writable queues of one topic, the way to each, and whose turn it is."""

    __slots__ = ("count", "places", "queues", "topic", "turn")

    def __init__(self, topic: str, queues: list[MessageQueue], way_to: Callable[[str], Way], turn: int) -> None:
        """`topic`: its whole name, as brokers know it. `way_to`: from a broker's name.

        `turn`: where to begin; random, so that producers spread over the queues.
        """
        self.topic = topic
        self.queues = queues
        self.count = len(queues)
        self.places = [(queue, queue.queue_id, way_to(queue.broker_name)) for queue in queues]
        """What `queues` says, ready for who counts `turn` up by itself."""
        self.turn = turn

    def next(self, avoided: Collection[str] = (), unreachable: Collection[str] = ()) -> MessageQueue:
        """Return the next queue: of a broker that isn't `avoided`, else of one that isn't `unreachable`, else any."""
        queues = self.queues
        for unwanted in (avoided, unreachable):
            for _ in range(len(queues) if unwanted else 0):
                self.turn += 1
                queue = queues[self.turn % len(queues)]
                if queue.broker_name not in unwanted:
                    return queue
        self.turn += 1
        return queues[self.turn % len(queues)]
