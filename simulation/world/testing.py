"""Scenarios in pytest: an `async def` test with the fixture `world` runs on virtual time, as do its async fixtures.

The conftest.py of a folder needs one line:

    from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world  # noqa: F401

The seed is 0, or `@pytest.mark.parametrize("world", [3, 4], indirect=True)`. A dict there contains arguments of
SimulatedWorld. A test fails if anything is unfinished at its end or an error went unnoticed (LeftOver).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio

from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.world import SimulatedWorld

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Choose the event loop of a test: the jumping one if the test, or one of its fixtures, uses `world`."""
    if "world" in getattr(item, "fixturenames", ()):
        return {"virtual": JumpingLoop}
    return {"live": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedWorld]:
    """A simulated world for each test."""
    parameter: Any = getattr(request, "param", 0)
    async with SimulatedWorld(**parameter if isinstance(parameter, dict) else {"seed": parameter}) as made:
        yield made
