"""Dead letters for scenarios. A listener gives messages up, so they become dead letters."""

from collections.abc import AsyncIterator

import pytest_asyncio

from staticfire.client import (
    ConsumeStatus,
    DeadLetter,
    DeadLetterQueue,
    Message,
    MessageQueue,
)
from staticfire.protocol.names import dead_letter_topic
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Shop
from tests.scenarios.faulty_shop import BROKER

DEAD = dead_letter_topic(GROUP)


async def hopeless(heard: Heard) -> ConsumeStatus:
    """A listener that wants no retry."""
    heard.context.delay_level_when_next_consume = -1
    return ConsumeStatus.RECONSUME_LATER


async def fine(_: Heard) -> ConsumeStatus:
    return ConsumeStatus.CONSUME_SUCCESS


@pytest_asyncio.fixture
async def dlq(shop: Shop) -> AsyncIterator[DeadLetterQueue]:
    async with DeadLetterQueue(GROUP, client=shop.producer.client) as dlq:
        yield dlq


async def bury(world: SimulatedWorld, shop: Shop, *messages: Message, queue: int | None = None) -> None:
    """Turn messages into dead letters, then stop the consumer."""
    before = sum(shop.ends(DEAD).values())
    consumer = await shop.start("hopeless", hopeless)
    for message in messages:
        await shop.producer.send(message, queue=None if queue is None else MessageQueue(TOPIC, "broker-a", queue))
    await world.until(lambda: sum(shop.ends(DEAD).values()) == before + len(messages), 60_000, "dead letters")
    await world.stop("hopeless")
    assert consumer.assignment == []
    shop.heard.clear()


def bodies(letters: list[DeadLetter]) -> list[bytes]:
    return [letter.message.body for letter in letters]


async def put_stray(shop: Shop, origin: str | None = None) -> None:
    """Store a dead letter of a topic, or one that doesn't contain the topic that it came from."""
    properties = "" if origin is None else f"RETRY_TOPIC\x01{origin}"
    stray = SendMessageV2("x", DEAD, "TBW102", 4, 0, 0, 0, 0, properties, body=b"stray")
    assert (await shop.producer.client.pool.ask(BROKER, stray, 3_000)).code == 0
