"""A watch notices that a master is gone, and lets a slave take over without a person."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.failover.watch import FailoverWatch
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with ten messages, and their watch."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=10)
    watch = FailoverWatch(pair.admin, lambda: world.uptime_ms, world.run_for)
    watching = asyncio.ensure_future(watch.loop())
    yield pair
    watching.cancel()
    await pair.close()


@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_a_slave_takes_over_by_itself(pair: ReplicaSet, world: SimulatedWorld, how: str) -> None:
    await world.run_for(seconds=1)
    assert (await pair.state(SLAVE)).role == "SLAVE"
    began_ms = world.uptime_ms
    (world.kill if how == "kill" else world.freeze)(MASTER)
    while (await pair.state(SLAVE)).role == "SLAVE":
        await world.run_for(20)
        assert world.uptime_ms - began_ms < 20_000
    assert world.uptime_ms - began_ms < (2_000 if how == "kill" else 18_000)
    assert (await pair.send(b"new", SLAVE)).code == 0
    if how == "freeze":
        world.thaw(MASTER)
    else:
        await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)


async def test_a_slave_takes_over_as_soon_as_its_start_is_done(world: SimulatedWorld) -> None:
    """Also if its first master starts slowly: before it has joined it once, it couldn't."""
    pair = await ReplicaSet(world).open(slaves=0)
    await world.stop(MASTER)
    starting = asyncio.ensure_future(pair.start(SLAVE))
    await world.run_for(seconds=5)
    assert not starting.done()
    await pair.start(MASTER)
    await starting
    watch = FailoverWatch(pair.admin, lambda: world.uptime_ms, world.run_for)
    watching = asyncio.ensure_future(watch.loop())
    world.kill(MASTER)
    await world.run_for(seconds=3)
    assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    watching.cancel()
    await pair.close()


async def test_it_leaves_a_failover_by_a_person_alone(pair: ReplicaSet, world: SimulatedWorld) -> None:
    for _ in range(3):
        await pair.failover()
        await world.run_for(seconds=3)
    assert max(epoch.epoch for epoch in (await pair.state(SLAVE)).epochs) == 4


async def test_a_master_that_pauses_for_some_seconds_is_still_the_master(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    """It is frozen, as by a debugger, and the nameserver still has its route."""
    world.freeze(MASTER)
    await world.run_for(seconds=7)
    world.thaw(MASTER)
    await world.run_for(seconds=15)
    assert ((await pair.state(MASTER)).role, (await pair.state(SLAVE)).role) == ("ASYNC_MASTER", "SLAVE")
    assert (await pair.send(b"after")).code == 0
