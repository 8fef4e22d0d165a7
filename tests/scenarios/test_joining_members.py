"""A member that joins while another one still takes its first share: the queues are shared again at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeStatus, PushConsumer
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC
from tests.scenarios.faulty_shop import FaultyShop

pytestmark = [pytest.mark.row("H5"), pytest.mark.row("R4")]

TAKING_MS = 300


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[FaultyShop]:
    """One broker that is slow to say where a queue begins, so that a consumer takes its queues slowly."""
    shop = await FaultyShop(world, ClientSettings()).open(queues=8)
    await shop.add(code="QUERY_CONSUMER_OFFSET", group=GROUP, delay=f"{TAKING_MS}ms")
    yield shop
    await shop.close()


def owned(consumer: PushConsumer) -> int:
    return len([queue for queue in consumer.assignment if queue.topic == TOPIC])


async def test_the_second_member_joins_while_the_first_takes_its_queues(
    world: SimulatedWorld, shop: FaultyShop
) -> None:
    starting = asyncio.ensure_future(shop.start("one"))
    await world.run_for(ms=TAKING_MS / 2)
    second = await shop.start("two")
    first = await starting
    await world.run_for(ms=2 * TAKING_MS)
    assert (owned(first), owned(second)) == (4, 4)


async def test_so_does_a_member_whose_client_has_another_group_already(world: SimulatedWorld, shop: FaultyShop) -> None:
    audit = await shop.start("one", group="audit")
    first = PushConsumer(GROUP, client=audit.client)
    first.subscribe(TOPIC)
    first.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    starting = asyncio.ensure_future(first.__aenter__())
    await world.run_for(ms=TAKING_MS / 2)
    second = await shop.start("two")
    await starting
    await world.run_for(ms=2 * TAKING_MS)
    assert (owned(first), owned(second)) == (4, 4)
    await first.__aexit__(None, None, None)
