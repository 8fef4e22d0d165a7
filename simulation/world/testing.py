"""Scenarios in pytest: an `async def` test that asks for `world` runs on virtual time, with its async fixtures.

A folder's conftest.py takes part with one line:

    from staticfire.simulation.world.testing import pytest_asyncio_loop_factories, world  # noqa: F401

The seed is 0, or `@pytest.mark.parametrize("world", [3, 4], indirect=True)`; a dict there has any arguments of
SimulatedWorld. When the test is over, what is left unfinished or went wrong unnoticed fails it (LeftOver).
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
    """Choose the event loop of a test: the jumping one when the test, or a fixture of it, asks for `world`."""
    if "world" in getattr(item, "fixturenames", ()):
        return {"virtual": JumpingLoop}
    return {"live": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedWorld]:
    """A simulated world of its own for each test."""
    parameter: Any = getattr(request, "param", 0)
    async with SimulatedWorld(**parameter if isinstance(parameter, dict) else {"seed": parameter}) as made:
        yield made
