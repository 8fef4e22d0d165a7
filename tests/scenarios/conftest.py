"""Fixtures for scenarios. They run in a simulated world: `world` is staticfire.simulation.world.SimulatedWorld."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world
from tests.scenarios.broker_stand import BrokerStand
from tests.scenarios.consuming import Shop
from tests.scenarios.logged import logged
from tests.scenarios.ordering import Ordering
from tests.scenarios.popping import Popper
from tests.scenarios.static_topics import ledger, trio

__all__ = ["ledger", "logged", "pytest_asyncio_loop_factories", "trio", "world"]


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """Two brokers, with the settings that a test is parametrized with. Some modules override this fixture."""
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(brokers=2)
    await shop.close()


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    """One broker that gets single requests. Some modules override this fixture."""
    stand = BrokerStand(world)
    await stand.start()
    yield stand
    await stand.close()


@pytest_asyncio.fixture
async def popper(stand: BrokerStand) -> Popper:
    """A client that pops from topic orders with single requests."""
    await stand.put_topic("orders")
    return Popper(stand)


@pytest_asyncio.fixture
async def group(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Ordering]:
    """A group that consumes in order, with the settings that a test is parametrized with.

    The test fails if a fault was found in it.
    """
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    group = Ordering(await shop.open())
    yield group
    await shop.close()
    assert group.faults == []
