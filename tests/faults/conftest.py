"""Tests that ask for `world` run in a simulated world; those that ask for `stand` there and on the real machine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from staticfire.runtime.live import live_machine
from staticfire.runtime.machine import Machine
from staticfire.simulation.world import JumpingLoop, SimulatedWorld
from staticfire.simulation.world.testing import LoopFactory, pytest_asyncio_loop_factories as choose_loop, world

__all__ = ["world"]


@dataclass(frozen=True)
class Stand:
    """Two processes of one host with one disk, and an empty folder on it."""

    machine: Machine
    other: Machine
    folder: str


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    if "stand" in getattr(item, "fixturenames", ()):
        return {"live": asyncio.new_event_loop, "simulated": JumpingLoop}
    return choose_loop(config, item)


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    if isinstance(asyncio.get_running_loop(), JumpingLoop):
        async with SimulatedWorld() as simulated:
            machine, other = simulated.machine("one"), simulated.machine("two", disk_of="one")
            machine.files.make_folder("/stand")
            yield Stand(machine, other, "/stand")
    else:
        machine, other = live_machine(), live_machine()
        yield Stand(machine, other, str(tmp_path))
        await machine.workers.close()
        await other.workers.close()
