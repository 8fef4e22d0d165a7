"""Reads the dead letters back, by pulling every queue of the group's %DLQ% topic."""

from collections import Counter

from staticfire.client import Admin, MessageQueue, PullConsumer
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.names import dead_letter_topic

CHECKER = "flights-checker"


class DeadLetters:
    """What has come to the end of its road."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._topic = dead_letter_topic(group)

    async def _queues(self, consumer: PullConsumer) -> list[MessageQueue]:
        try:
            return await consumer.queues(self._topic)
        except TopicNotFound:
            return []  # Nothing has died so far.

    async def count(self, consumer: PullConsumer) -> int:
        """Return how many dead letters there are."""
        return sum([await consumer.max_offset(queue) for queue in await self._queues(consumer)])

    async def keys(self, consumer: PullConsumer) -> Counter[str]:
        """Return how often each flight is among them."""
        found: Counter[str] = Counter()
        for queue in await self._queues(consumer):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found.update(message.keys[0] for message in result.messages)
                if result.next_offset <= offset:
                    raise RuntimeError(f"{queue} doesn't go on at {offset}: {result.status}")
                offset = result.next_offset
        return found
