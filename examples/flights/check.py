"""Reads the dead letters back, by pulling every queue of the group's %DLQ% topic."""

from collections import Counter

from staticfire.client import MessageQueue, PullConsumer
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.names import dead_letter_topic

CHECKER = "flights-checker"


class DeadLetters:
    """What has come to the end of its road: looked at again and again, each letter read once."""

    def __init__(self, consumer: PullConsumer, group: str) -> None:
        self.found: Counter[str] = Counter()
        """How often each flight is among them."""
        self._consumer = consumer
        self._topic = dead_letter_topic(group)
        self._offsets: dict[MessageQueue, int] = {}

    async def _queues(self) -> list[MessageQueue]:
        try:
            return await self._consumer.queues(self._topic)
        except TopicNotFound:
            return []  # Nothing has died so far.

    async def look(self) -> int:
        """Read what is new; return how many flights are dead."""
        for queue in await self._queues():
            offset, end = self._offsets.get(queue, 0), await self._consumer.max_offset(queue)
            while offset < end:
                result = await self._consumer.pull(queue, offset)
                self.found.update(message.keys[0] for message in result.messages)
                if result.next_offset <= offset:
                    raise RuntimeError(f"{queue} doesn't go on at {offset}: {result.status}")
                offset = self._offsets[queue] = result.next_offset
        return len(self.found)
