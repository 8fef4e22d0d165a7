"""A consumer keeps the queues of a broker that is away for a while: with them it keeps what it has consumed there."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import MessageQueue
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop

pytestmark = pytest.mark.row("R4", "F1")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    yield await shop.open(brokers=2, queues=1)
    await shop.close()


async def test_a_killed_broker_that_is_back_delivers_nothing_again(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await world.run_for(seconds=12)
    bodies = await shop.send_many(20)
    await shop.until_heard(20)
    world.kill("broker-b")
    await world.run_for(seconds=3)
    await shop.start_broker("broker-b")
    await world.run_for(seconds=30)
    assert sorted(shop.bodies) == sorted(bodies)
    assert shop.committed(0, broker="broker-b") == 10


async def test_a_broker_that_stays_away_loses_its_queues(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.send_many(20)
    await shop.until_heard(20)
    world.kill("broker-b")
    await world.run_for(seconds=3)
    both = [MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-b", 0)]
    assert [queue for queue in consumer.assignment if queue.topic == TOPIC] == both
    await world.run_for(seconds=60)
    assert [queue for queue in consumer.assignment if queue.topic == TOPIC] == both[:1]
