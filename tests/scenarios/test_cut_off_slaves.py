"""A master is gone, and its slave had no contact with it before: nobody knows what the slave lacks."""

import pytest

from staticfire.client.admin.faults import FaultAdmin
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.errors import ClientError
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")


async def test_a_slave_that_was_cut_off_takes_over_only_if_a_loss_is_accepted(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    world.partition(MASTER, SLAVE)
    await world.run_for(seconds=30)
    assert [(await pair.send(b"acknowledged")).code for _ in range(100)] == [0] * 100
    world.kill(MASTER)
    world.heal(MASTER, SLAVE)
    await world.run_for(seconds=3)
    with pytest.raises(ClientError, match=r"no contact with its master for 30s, .*unknown what it lacks.*--losing 0"):
        await pair.failover()
    assert (await pair.failover(losing=0)).lost == -1
    assert len(await pair.bodies(SLAVE)) == 3
    await pair.close()


async def test_so_does_one_whose_master_dies_before_it_has_given_up_waiting(world: SimulatedWorld) -> None:
    """The connection breaks after 15 s, and the master refuses the next one: no request has timed out."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    world.partition(MASTER, SLAVE)
    await world.run_for(seconds=15)
    assert [(await pair.send(b"acknowledged")).code for _ in range(100)] == [0] * 100
    world.kill(MASTER)
    world.heal(MASTER, SLAVE)
    await world.run_for(seconds=30)
    with pytest.raises(ClientError, match=r"no contact with its master for 1\ds, .*unknown what it lacks.*--losing 0"):
        await pair.failover()
    await pair.close()


async def test_so_does_one_whose_connections_are_closed_again_and_again(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    await FaultAdmin(pair.pool, NAMESRV).add(parse_fault({"code": "JOIN_REPLICATION,COPY_LOG", "close": True}))
    await world.run_for(seconds=30)
    assert [(await pair.send(b"acknowledged")).code for _ in range(100)] == [0] * 100
    world.kill(MASTER)
    await world.run_for(seconds=3)
    with pytest.raises(ClientError, match=r"no contact with its master for \d\ds, .*unknown what it lacks.*--losing 0"):
        await pair.failover()
    await pair.close()


async def test_so_does_one_that_has_not_found_its_master_since_its_start(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    await world.stop(SLAVE)
    assert (await pair.send(b"acknowledged")).code == 0
    world.kill(MASTER)
    await pair.start(SLAVE)
    with pytest.raises(ClientError, match=r"has copied no master since it started.*--losing 0"):
        await pair.failover()
    await pair.start(MASTER)
    await pair.until_caught_up()
    world.kill(MASTER)
    assert (await pair.failover()).lost == -1
    await pair.close()


@pytest.mark.parametrize("wait_s", [0, 4, 60])
async def test_one_that_copied_to_the_end_takes_over_whenever_that_is_requested(
    world: SimulatedWorld, wait_s: int
) -> None:
    """What the master has stored in its last moment isn't known: so the number of lost messages isn't, either."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    await world.run_for(seconds=4)
    world.kill(MASTER)
    await world.run_for(seconds=wait_s)
    assert (await pair.failover()).lost == -1
    await pair.close()


async def test_a_master_that_is_frozen_for_a_moment_is_replaced_without_more_words(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    world.freeze(MASTER)
    await world.run_for(seconds=3)
    assert (await pair.failover()).lost == -1
    world.thaw(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    await pair.close()


async def test_by_itself_a_slave_of_an_asynchronous_master_takes_over_although_it_was_cut_off(
    world: SimulatedWorld,
) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    async with pair.watched():
        world.partition(MASTER, SLAVE)
        await world.run_for(seconds=30)
        world.kill(MASTER)
        await world.run_for(seconds=3)
        assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    await pair.close()
