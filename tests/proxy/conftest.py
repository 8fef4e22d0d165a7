"""`stand`: a simulated cluster with the gRPC service in front of it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world
from tests.proxy.grpc_stand import GrpcStand
from tests.scenarios.logged import logged

__all__ = ["logged", "pytest_asyncio_loop_factories", "world"]

USUAL = {"recall_message_enable": True, "wake_pops_of_returning": True}


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[GrpcStand]:
    """One broker, with the settings that a test is parametrized with."""
    stand = GrpcStand(world, **getattr(request, "param", USUAL))
    yield await stand.start()
    await stand.close()
