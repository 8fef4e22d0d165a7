"""Scenarios run in a simulated world: `world` is staticfire.faults.simulation.SimulatedWorld."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings
from staticfire.faults.simulation import SimulatedWorld
from staticfire.faults.simulation.testing import pytest_asyncio_loop_factories, world
from tests.scenarios.consuming import Shop
from tests.scenarios.logged import logged

__all__ = ["logged", "pytest_asyncio_loop_factories", "world"]


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """Two brokers, and the settings that a test is parametrized with; some modules have another one of this name."""
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(brokers=2)
    await shop.close()
