"""Which of the wanted topics are there."""

import asyncio
from collections.abc import Sequence

from staticfire.client import ClientSettings, PullConsumer, PullSettings
from staticfire.protocol.errors import TopicNotFound

GROUP = "TOOLS_CONSUMER"
# RocketMQ's own group for looking at things; every broker has it.


def topics_there(name_server: str, protocol: str, topics: Sequence[str]) -> list[str]:
    """Return those of the topics that exist, in the given order. Raises: NetworkError, UsageError."""
    return asyncio.run(_topics_there(name_server, protocol, topics))


async def _topics_there(name_server: str, protocol: str, topics: Sequence[str]) -> list[str]:
    settings = PullSettings(client=ClientSettings(protocol=protocol))  # type: ignore[arg-type]  # checked there
    there = []
    async with PullConsumer(GROUP, name_server, settings) as consumer:
        for topic in topics:
            try:
                await consumer.queues(topic)
            except TopicNotFound:
                continue
            there.append(topic)
    return there
