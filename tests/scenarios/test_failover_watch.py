"""A watch notices that a master is gone, and lets a slave take over without a person."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, NAMESRV, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with ten messages, and their watch."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=10)
    async with pair.watched():
        yield pair
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
    async with pair.watched():
        world.kill(MASTER)
        await world.run_for(seconds=3)
        assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    await pair.close()


async def start_another(world: SimulatedWorld) -> None:
    """Start broker-b and its slave broker-b-1."""
    for name, broker_id in (("broker-b", 0), ("broker-b-1", 1)):
        role = "SLAVE" if broker_id else "ASYNC_MASTER"
        settings = BrokerSettings(
            broker_name="broker-b", broker_id=broker_id, broker_role=role, namesrv_addr=NAMESRV,
            store_path_root_dir="/store",
        )  # fmt: skip
        await world.start(name, Broker(world.machine(name, f"10.0.2.{broker_id}"), settings))


@pytest.mark.parametrize("frozen", ["broker-b-1", "broker-b"])
async def test_a_frozen_machine_of_one_broker_delays_no_failover_of_another(
    pair: ReplicaSet, world: SimulatedWorld, frozen: str
) -> None:
    await start_another(world)
    await world.run_for(seconds=2)
    world.freeze(frozen)
    await world.run_for(500)
    world.kill(MASTER)
    await world.run_for(1_000)
    assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    world.thaw(frozen)


async def test_a_failover_that_takes_long_delays_no_other(pair: ReplicaSet, world: SimulatedWorld) -> None:
    """The slave of the other broker freezes while it takes over."""
    await start_another(world)
    await world.run_for(seconds=2)
    world.kill("broker-b")
    await world.run_for(250)
    world.freeze("broker-b-1")
    await world.run_for(200)
    world.kill(MASTER)
    await world.run_for(1_000)
    assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    world.thaw("broker-b-1")


async def test_a_broker_without_a_slave_that_can_take_over_keeps_no_other_from_it(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2).open(slaves=2)
    await start_another(world)
    async with trio.watched():
        await world.run_for(seconds=2)
        for name in (MASTER, SECOND, "broker-b"):
            world.kill(name)
        await world.run_for(seconds=10)
        roles = {one.address: one.state.role for one in await trio.admin.all() if one.state is not None}
        assert roles == {address_of(SLAVE): "SLAVE", "10.0.2.1:10911": "ASYNC_MASTER"}
        [reported] = [line for line in logged if line.event == "failover_not_possible"]
        assert (reported.level, reported.fields["broker"]) == ("warning", MASTER)
        assert "1 of its slaves answer and had everything, and 2 must" in str(reported.fields["reason"])
    await trio.close()


ALL_IN_SYNC: dict[str, Any] = {
    "broker_role": "SYNC_MASTER", "in_sync_replicas": 1, "all_ack_in_sync_state_set": True, "min_in_sync_replicas": 1,
}  # fmt: skip


async def test_if_all_in_sync_acknowledge_one_of_these_takes_over(world: SimulatedWorld, logged: list[LogLine]) -> None:
    trio = await ReplicaSet(world, **ALL_IN_SYNC).open(slaves=2)
    async with trio.watched():
        await world.run_for(seconds=1)
        world.freeze(SECOND)
        await world.run_for(seconds=20)
        assert [(await trio.send(b"acknowledged")).code for _ in range(5)] == [0] * 5
        for name in (MASTER, SLAVE):
            world.kill(name)
        world.thaw(SECOND)
        await world.run_for(seconds=30)
        assert (await trio.state(SECOND)).role == "SLAVE"
        reasons = [str(line.fields["reason"]) for line in logged if line.event == "failover_not_possible"]
        assert any(
            f"all in sync acknowledge, and none of these answers and had everything; start {address_of(SLAVE)}"
            in reason
            for reason in reasons
        )
        await trio.start(MASTER)
        await trio.start(SLAVE)
        await trio.until_caught_up(SLAVE)
        await world.run_for(seconds=1)
        world.kill(MASTER)
        await world.run_for(seconds=3)
        await trio.until_caught_up(SECOND, SLAVE)
    for name in (SLAVE, SECOND):
        assert await trio.bodies(name) == [b"acknowledged"] * 5
    await trio.close()


async def test_if_none_is_in_sync_the_master_alone_has_the_last_messages(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    pair = await ReplicaSet(world, **ALL_IN_SYNC).open()
    async with pair.watched():
        world.partition(MASTER, SLAVE)
        await world.run_for(seconds=40)
        assert (await pair.send(b"only here")).code == 0
        await world.run_for(seconds=1)
        world.kill(MASTER)
        await world.run_for(seconds=20)
        assert (await pair.state(SLAVE)).role == "SLAVE"
        [reported] = [line for line in logged if line.event == "failover_not_possible"]
        assert "start its master, because no slave was in sync with it" in str(reported.fields["reason"])
    await pair.close()


async def test_it_is_reported_that_no_slave_has_ever_copied_its_master(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    pair = await ReplicaSet(world).open(slaves=0)
    async with pair.watched():
        await world.run_for(seconds=1)
        world.kill(MASTER)
        await pair.start(SLAVE)
        [reported] = [line for line in logged if line.event == "failover_not_possible"]
        assert reported.fields["reason"] == (
            f"no slave of broker-a takes over: none that answers has ever copied its master at {address_of(MASTER)}; "
            "start that again, or the other slaves"
        )
        await pair.start(MASTER)
        await pair.until_caught_up()
    await pair.close()


async def test_reasons_that_alternate_dont_fill_the_log(world: SimulatedWorld, logged: list[LogLine]) -> None:
    """A slave that answers only now and then, and may not take over: every few seconds, the reason is another one."""
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2).open(slaves=2)
    async with trio.watched():
        await world.run_for(seconds=2)
        world.kill(MASTER)
        world.kill(SECOND)
        for _ in range(30):
            await world.run_for(seconds=3)
            world.freeze(SLAVE)
            await world.run_for(seconds=3)
            world.thaw(SLAVE)
        reported = [str(line.fields["reason"]) for line in logged if line.event == "failover_not_possible"]
        silence = f"none answers, nor does its master at {address_of(MASTER)}; start that again, or the other slaves"
        assert any(silence in reason for reason in reported)
        assert any("1 of its slaves answer and had everything, and 2 must" in reason for reason in reported)
        assert len(reported) <= 180 / 10 + 1
    await trio.close()


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


@pytest.mark.parametrize("seen_ms", [0, 1_000])
async def test_so_is_one_that_pauses_while_a_restarted_nameserver_has_no_route_to_it(
    pair: ReplicaSet, world: SimulatedWorld, seen_ms: int
) -> None:
    """Its process lives: it accepts connections, and may have messages that no slave has."""
    await world.run_for(seen_ms)
    world.freeze(MASTER)
    world.kill("namesrv")
    await world.run_for(100)
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await world.run_for(seconds=7)
    world.thaw(MASTER)
    await world.run_for(seconds=40)
    assert ((await pair.state(MASTER)).role, (await pair.state(SLAVE)).role) == ("ASYNC_MASTER", "SLAVE")
    assert (await pair.send(b"after")).code == 0
