"""Reads everything back by pulling every queue, and compares it with what was acknowledged."""

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from data import TOPIC
from send import Sent

from staticfire.client import MessageQueue, PullConsumer

GROUP = "flights-checker"


@dataclass
class Stored:
    """What the brokers have: how often each key was read, and its body's checksum."""

    times_read: Counter[str] = field(default_factory=Counter)
    checksums: dict[str, int] = field(default_factory=dict)
    by_broker: Counter[str] = field(default_factory=Counter)

    @property
    def flights(self) -> int:
        return len(self.times_read)

    @property
    def duplicates(self) -> int:
        return self.times_read.total() - self.flights

    def lost(self, sent: Sent) -> list[str]:
        """Return the keys that were acknowledged and aren't there."""
        return [key for key in sent.checksums if key not in self.times_read]

    def damaged(self, sent: Sent) -> list[str]:
        """Return the keys whose body isn't what was sent, or that nobody sent."""
        return [key for key, checksum in self.checksums.items() if sent.checksums.get(key) != checksum]


async def read_back(namesrv: str, progress: Callable[[int], None]) -> Stored:
    """Read all queues from their beginning to their end; `progress` hears of each pull."""
    stored = Stored()
    async with PullConsumer(GROUP, namesrv) as consumer, asyncio.TaskGroup() as readers:
        for queue in await consumer.queues(TOPIC):
            readers.create_task(_read_queue(consumer, queue, stored, progress))
    return stored


async def _read_queue(
    consumer: PullConsumer, queue: MessageQueue, stored: Stored, progress: Callable[[int], None]
) -> None:
    offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
    while offset < end:
        result = await consumer.pull(queue, offset)
        for message in result.messages:
            (key,) = message.keys
            stored.times_read[key] += 1
            stored.checksums[key] = zlib.crc32(message.body)
        stored.by_broker[queue.broker_name] += len(result.messages)
        progress(len(result.messages))
        if result.next_offset <= offset:
            raise RuntimeError(f"{queue} doesn't go on at {offset}: {result.status}")
        offset = result.next_offset
