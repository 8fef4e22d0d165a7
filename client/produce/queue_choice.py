"""Chooses the queue for the next message of a topic. Pure. RocketMQ: TopicPublishInfo.selectOneMessageQueue.

Round robin over the writable queues. A retry goes to another broker than the attempt before, if there is one. While
there are others, a broker that was slow or couldn't be reached recently gets no messages.
"""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from staticfire.client.cluster.queues import MessageQueue

Way = TypeVar("Way")


class QueueChoice(Generic[Way]):
    """The writable queues of one topic, the path to each, and the position of the round robin."""

    __slots__ = ("count", "places", "queues", "topic", "turn")

    def __init__(self, topic: str, queues: list[MessageQueue], way_to: Callable[[str], Way], turn: int) -> None:
        """`topic`: its full name, as brokers know it. `way_to`: returns the path to a broker, by its name.

        `turn`: the start position; random, so that producers spread over the queues.
        """
        self.topic = topic
        self.queues = queues
        self.count = len(queues)
        self.places = [(queue, queue.queue_id, way_to(queue.broker_name)) for queue in queues]
        """The same as `queues`, prepared for callers that increment `turn` themselves."""
        self.turn = turn

    def next(self, avoided: Collection[str] = (), unreachable: Collection[str] = ()) -> MessageQueue:
        """Return the next queue: on a broker that isn't `avoided`, else on one that isn't `unreachable`, else any."""
        queues = self.queues
        for unwanted in (avoided, unreachable):
            for _ in range(len(queues) if unwanted else 0):
                self.turn += 1
                queue = queues[self.turn % len(queues)]
                if queue.broker_name not in unwanted:
                    return queue
        self.turn += 1
        return queues[self.turn % len(queues)]
