"""Two failovers of one broker at the same time, or one that takes too long: no acknowledged message is lost."""

import asyncio
from typing import Any

import pytest

from staticfire.failover.replicas import FENCE_MS, Failover, ReplicaAdmin
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.requests.replication import ChangeRole, ControlReplication
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.scenarios.replica_set import MASTER, NAMESRV, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")


async def handing_over(trio: ReplicaSet) -> "asyncio.Task[Failover]":
    """Have a failover to the first slave that waits, because the slave can't copy offsets: it is cut off.

    The other slave lacks a message, and whatever the master accepts from now on reaches neither.
    """
    await trio.control(SECOND, hold=True)
    await trio.send(b"last")
    await trio.until_caught_up()
    await trio.control(SLAVE, lag_ms=60_000)
    task = asyncio.ensure_future(trio.failover(to=1))
    store = trio.brokers[MASTER].state.store
    await trio.world.until(lambda: store.refusal is not None, 1_000, "the master refuses messages")
    trio.world.partition(MASTER, SLAVE)
    await trio.world.run_for(100)
    return task


@pytest.mark.parametrize("to", [2, 1, None])
async def test_a_second_failover_is_refused_and_the_first_loses_nothing(world: SimulatedWorld, to: int | None) -> None:
    trio = await ReplicaSet(world).open(slaves=2)
    first = await handing_over(trio)
    pool = ConnectionPool(world.machine("another", "10.0.0.8"))
    second = asyncio.ensure_future(ReplicaAdmin.at_nameservers(pool, NAMESRV).failover(MASTER, to))
    await world.run_for(500)
    between = await trio.send(b"between")
    world.heal(MASTER, SLAVE)
    done = await first
    assert (done.master, done.lost) == (address_of(SLAVE), 0)
    assert await trio.bodies(SLAVE) == [b"last"]
    assert "hands over to a slave" in str(between.remark)
    with pytest.raises(BrokerAnswer, match="another failover of this broker is running"):
        await second
    await pool.close()
    await trio.close()


async def test_a_master_that_accepts_messages_again_remains_the_master(world: SimulatedWorld) -> None:
    """The failover takes longer than a master waits for it, because the slave's answers are slow."""
    trio = await ReplicaSet(world).open(slaves=2)
    world.set_link("client", SLAVE, LinkQuality(delay_ms=200))
    first = await handing_over(trio)
    store = trio.brokers[MASTER].state.store
    await world.until(lambda: store.refusal is None, FENCE_MS + 100, "the master accepts messages again")
    acknowledged = [b"last", b"accepted again"]
    assert (await trio.send(acknowledged[1])).code == 0
    await trio.control(SLAVE, lag_ms=0)
    world.heal(MASTER, SLAVE)
    with pytest.raises(BrokerAnswer, match="this master accepts messages again"):
        await first
    await world.run_for(seconds=5)
    assert (await trio.state(MASTER)).role == "ASYNC_MASTER"
    assert await trio.bodies(MASTER) == acknowledged
    await trio.close()


@pytest.mark.parametrize("change", [{"fence": "b"}, {"fence": ""}, {"fence": "a", "end_position": 7}])
async def test_a_master_gives_way_only_to_the_failover_that_has_stopped_it(
    world: SimulatedWorld, change: dict[str, Any]
) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(1)
    assert (await pair.control(MASTER, fence_ms=5_000, fence="a")).code == 0
    assert (await pair.control(MASTER, fence_ms=5_000, fence="b")).code == 2
    assert (await pair.control(MASTER, fence_ms=0, fence="b")).code == 0
    assert (await pair.ask(MASTER, ChangeRole("SLAVE", 1, 9, **change))).code == 2
    assert "hands over to a slave" in (await pair.send(b"between")).remark
    end = pair.end(MASTER)
    assert (await pair.ask(MASTER, ChangeRole("SLAVE", 1, 9, fence="a", end_position=end))).code == 0
    assert (await pair.state(MASTER)).role == "SLAVE"
    await pair.close()


async def test_a_master_whose_fence_has_ended_gives_way_to_no_failover(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(1)
    assert (await pair.control(MASTER, fence_ms=1_000, fence="a")).code == 0
    await world.run_for(2_000)
    refused = await pair.ask(MASTER, ChangeRole("SLAVE", 1, 9, fence="a", end_position=pair.end(MASTER)))
    assert (refused.code, "accepts messages again" in (refused.remark or "")) == (2, True)
    assert (await pair.send(b"after")).code == 0
    await pair.close()


async def test_only_the_failover_that_has_stopped_a_slave_lets_it_confirm_again(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, broker_role="SYNC_MASTER").open()
    assert (await pair.ask(SLAVE, ControlReplication(fence_ms=5_000, fence="a"))).code == 0
    assert (await pair.ask(SLAVE, ControlReplication(fence_ms=5_000, fence="b"))).code == 2
    assert (await pair.ask(SLAVE, ControlReplication(fence_ms=0, fence="b"))).code == 0
    end = pair.end(SLAVE)
    sending = asyncio.ensure_future(pair.send(b"not confirmed"))
    await world.run_for(2_000)
    assert pair.end(SLAVE) == end
    assert (await pair.ask(SLAVE, ControlReplication(fence_ms=0, fence="a"))).code == 0
    assert (await sending).code == 0
    await pair.until_caught_up()
    await pair.close()
