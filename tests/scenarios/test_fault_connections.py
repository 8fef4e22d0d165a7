"""Fault rules and connections: which of them are meant, and what their frames do to each other."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import AnswerTimeout, ClientSettings
from staticfire.faults.simulation import SimulatedWorld
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.runtime.pool import ConnectionPool
from tests.scenarios.consuming import TOPIC
from tests.scenarios.faulty_shop import BROKER, FaultyShop

pytestmark = pytest.mark.row("S2")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[FaultyShop]:
    shop = FaultyShop(world, ClientSettings())
    await shop.open(brokers=1, queues=1)
    yield shop
    await shop.close()


@pytest.mark.parametrize("said", [{"address": "10.0.4.1", "drop": "request"}, {"partition": "broker-a/10.0.4.1"}])
async def test_address_of_a_connection_that_is_made_while_there_is_a_rule_is_meant(
    shop: FaultyShop, said: dict[str, str]
) -> None:
    await shop.add(**said)
    pool = ConnectionPool(shop.world.machine("till", host="10.0.4.1"))
    with pytest.raises(AnswerTimeout):
        await pool.ask(BROKER, GetMaxOffset(TOPIC, 0), 1_000)
    assert await shop.hits() == [1]
    await shop.send(b"from elsewhere")
    await pool.close()
