"""Two brokers that took over in the same epoch, because neither knew of the other."""

import pytest

from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SECOND, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("ahead_ms", "stays", "gives_way"),
    [(0, SECOND, SLAVE), (HOUR_MS, SLAVE, SECOND)],
    ids=["the later one", "by the clock"],
)
async def test_one_gives_way(world: SimulatedWorld, ahead_ms: int, stays: str, gives_way: str) -> None:
    """Both begin where their logs end, which is at the same position."""
    three = await ReplicaSet(world).open(slaves=2)
    await three.fill(messages=10)
    await three.until_caught_up(SECOND)
    world.skew(SLAVE, ahead_ms)
    begins = three.end(SLAVE)
    for name in (MASTER, SECOND):
        world.kill(name)
    await take_over(three, SLAVE)
    world.kill(SLAVE)
    await three.start(SECOND)
    await take_over(three, SECOND)
    await three.start(SLAVE)
    await three.until_caught_up(gives_way, stays)
    await three.start(MASTER)
    await three.until_caught_up(MASTER, stays)
    for name in (MASTER, SLAVE, SECOND):
        begun = [one.start_position for one in (await three.state(name)).epochs if one.epoch == 2]
        assert begun[0] == begins
        assert (await three.bodies(name))[10:] == [stays.encode()]
    three.assert_equal(stays, gives_way, MASTER)
    await three.close()


async def take_over(three: ReplicaSet, name: str) -> None:
    """Let a slave take over while the others are dead, and store a message."""
    await three.world.run_for(seconds=60)
    assert (await three.failover(losing=0)).epoch == 2
    assert (await three.send(name.encode(), name)).code == 0
