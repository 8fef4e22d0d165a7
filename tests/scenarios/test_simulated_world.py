"""Scenarios run on virtual time, together with their fixtures."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from staticfire.runtime.machine import File
from staticfire.simulation.world import JumpingLoop, SimulatedWorld


@pytest.fixture
async def log(world: SimulatedWorld) -> AsyncIterator[File]:
    """A file that is a virtual minute old when the test begins."""
    file = world.machine("broker").files.open("/log")
    file.write(0, b"made by a fixture")
    await world.run_for(minutes=1)
    yield file
    file.close()


async def test_a_fixture_and_its_test_share_one_world(world: SimulatedWorld, log: File) -> None:
    assert world.uptime_ms == 60_000
    assert log.read(0, 4) == b"made"
    await world.run_for(hours=2)
    assert world.uptime_ms == 7_260_000


async def test_who_asks_for_no_world_runs_on_real_time() -> None:
    assert not isinstance(asyncio.get_running_loop(), JumpingLoop)


@pytest.mark.parametrize("world", [3, {"seed": 4}], indirect=True)
async def test_a_world_can_have_any_seed(world: SimulatedWorld) -> None:
    assert world.seed in (3, 4)
