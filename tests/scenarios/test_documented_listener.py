"""The listener of docs/idempotent-listeners.md does what is written there."""

import re
import sqlite3
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from staticfire.client import ConsumeContext, ConsumeStatus, Message
from staticfire.simulation.world import SimulatedWorld
from tests.house.source import ROOT
from tests.scenarios.consuming import TOPIC, Messages, Shop


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    yield await shop.open(queues=1)
    await shop.close()


def documented() -> Any:
    """Return the class that stands in the document."""
    text = (ROOT / "docs" / "idempotent-listeners.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["Booking"]


async def test_a_payment_that_comes_again_is_booked_once(world: SimulatedWorld, shop: Shop) -> None:
    database = sqlite3.connect(":memory:")
    book = documented()(database)
    heard: list[str] = []

    async def book_and_fail_once(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        await book(messages, context)
        heard.extend(message.body.decode() for message in messages)
        is_first = messages[0].reconsume_times == 0
        return ConsumeStatus.RECONSUME_LATER if is_first else ConsumeStatus.CONSUME_SUCCESS

    consumer = shop.consumer("one")
    consumer.listener(book_and_fail_once)
    await world.start("one", consumer)
    payment = Message(TOPIC, b"alice 100", keys="payment-1")
    for message in (payment, payment, Message(TOPIC, b"alice 7"), Message(TOPIC, b"bob 5", keys="payment-2")):
        await shop.producer.send(message)
    await world.until(lambda: len(heard) == 8, within_ms=20_000)
    assert sorted(database.execute("select * from balance")) == [("alice", 107), ("bob", 5)]
    database.close()
