"""Files of state that say what can't be: nothing is lost by what they claim, and the log says what was wrong."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from staticfire.broker.store.sealed import seal, unseal
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand

DELAYS, CHECKPOINT = "/store/config/delayOffset.json", "/store/checkpoint"


async def stopped(world: SimulatedWorld) -> BrokerStand:
    """Return a broker that has delivered two delayed messages and stopped; three others wait."""
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 1)
    for number in range(2):
        await stand.send("orders", b"soon %d" % number, DELAY="1")
    for number in range(3):
        await stand.send("orders", b"late %d" % number, DELAY="3")
    await world.run_for(seconds=3)
    await world.stop(NAME)
    return stand


def edit(world: SimulatedWorld, path: str, change: Callable[[Any], None]) -> None:
    files = world.machine(NAME).files
    value = json.loads(files.read_bytes(path))
    change(value)
    files.replace(path, json.dumps(value).encode())


@pytest.mark.row("D2")
@pytest.mark.parametrize("level", ["1", "3"])
async def test_a_level_that_stands_behind_its_end_loses_nothing(world: SimulatedWorld, level: str) -> None:
    """RocketMQ lets it stand at the end: the three that wait would never come."""
    stand = await stopped(world)
    edit(world, DELAYS, lambda saved: saved["offsetTable"].update({level: 1_000}))
    await stand.start()
    await world.run_for(seconds=20)
    expected = [b"soon 0", b"soon 1", b"late 0", b"late 1", b"late 2"]
    assert await stand.bodies("orders") == expected
    await stand.restart()
    await world.run_for(seconds=20)
    assert await stand.bodies("orders") == expected
    await stand.close()


async def test_a_checkpoint_with_another_time_than_its_record_moves_no_clock(world: SimulatedWorld) -> None:
    """Message time never goes back: it would stand until that moment comes."""
    stand = await stopped(world)
    files = world.machine(NAME).files
    numbers = json.loads(unseal(files.read_bytes(CHECKPOINT)))
    numbers[2] += 10**12
    files.replace(CHECKPOINT, seal(json.dumps(numbers).encode()))
    await stand.start()
    await world.run_for(seconds=20)
    assert len(await stand.bodies("orders")) == 5
    await stand.close()
