"""Fault rules about a broker as a whole: what it may do when they are gone is what it might do before."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC
from tests.scenarios.faulty_shop import BROKER, FaultyShop

pytestmark = pytest.mark.row("S2")
READ_ONLY, READ_WRITE = 4, 6


class Shop(FaultyShop):
    async def permit(self, permission: int) -> None:
        """Set brokerPermission while the broker runs."""
        answer = await self.pool.ask(BROKER, UpdateBrokerConfig(body=b"brokerPermission=%d" % permission), 10_000)
        assert answer.code == 0

    async def permission(self) -> int:
        """Return the permission in the route."""
        await self.world.run_for(ms=1_000)
        (queues,) = (await self.admin.route(TOPIC)).queue_datas
        return queues.perm


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, ClientSettings())
    await shop.open(brokers=1, queues=1)
    yield shop
    await shop.close()


async def test_broker_that_could_not_be_written_to_still_can_not_after_a_read_only_rule(shop: Shop) -> None:
    await shop.permit(READ_ONLY)
    await shop.add(read_only=True)
    await shop.faults.remove(0)
    assert await shop.permission() == READ_ONLY


async def test_permission_that_is_set_while_a_read_only_rule_is_there_counts_when_it_is_gone(shop: Shop) -> None:
    await shop.permit(READ_ONLY)
    await shop.add(read_only=True)
    await shop.permit(READ_WRITE)
    assert await shop.permission() == READ_ONLY
    await shop.faults.remove(0)
    assert await shop.permission() == READ_WRITE
    await shop.add(read_only=True)
    await shop.permit(READ_ONLY)
    await shop.faults.remove(0)
    assert await shop.permission() == READ_ONLY


async def test_broker_is_read_only_until_the_last_such_rule_ends(shop: Shop) -> None:
    await shop.add(read_only=True)
    await shop.add(read_only=True)
    await shop.faults.remove(1)
    assert await shop.permission() == READ_ONLY
    await shop.faults.remove(2)
    assert await shop.permission() == READ_WRITE
