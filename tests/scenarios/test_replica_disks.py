"""Machines that lost their disk, or forgot something: a new disk must not cost the others theirs."""

import asyncio
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from staticfire.failover.watch import POLL_MS
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.brokers import GetMemberGroup
from staticfire.simulation.runs.disk_trouble import DiskTrouble
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.process import ProcessKilled
from tests.scenarios.replica_set import MASTER, NAMESRV, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")
SYNC: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 300}


async def members(of: ReplicaSet) -> dict[int, str]:
    answer = await of.pool.ask(NAMESRV, GetMemberGroup("DefaultCluster", MASTER))
    return dict(answer.body.broker_member_group.broker_addrs)


def lose_disk(of: ReplicaSet, name: str) -> None:
    of.world.kill(name, power_loss=True)
    of.world.disk(name).replace_all()


async def filled(of: ReplicaSet, slaves: int = 1) -> ReplicaSet:
    await of.open(slaves)
    for number in range(20):
        assert (await of.send(b"%d" % number)).code == 0
    for name in (SLAVE, SECOND)[:slaves]:
        await of.until_caught_up(name)
    return of


async def test_a_master_with_a_new_disk_waits_for_the_slave_that_has_the_messages(world: SimulatedWorld) -> None:
    pair = await filled(ReplicaSet(world))
    lose_disk(pair, MASTER)
    await pair.start(MASTER)
    assert (await pair.state(MASTER)).waits_for_failover
    assert (await pair.send(b"no")).code != 0
    assert 0 not in await members(pair)
    assert (await pair.failover()).master == address_of(SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(MASTER)) == 20
    await pair.close()


async def test_an_empty_master_whose_sends_wait_for_slaves_stores_nothing_before_it_knows_them(
    world: SimulatedWorld,
) -> None:
    """Its clients know its address: they would read messages at offsets that others have at the slave."""
    pair = await filled(ReplicaSet(world, **SYNC))
    lose_disk(pair, MASTER)
    world.kill("namesrv")
    starting = asyncio.ensure_future(pair.start(MASTER, ha_master_address=""))
    await world.run_for(seconds=5)
    sent = await pair.send(b"no")
    assert "no nameserver says which slaves may have more" in sent.remark
    assert pair.end(MASTER) == 0
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await starting
    await world.run_for(seconds=40)
    assert (await pair.failover()).master == address_of(SLAVE)
    assert len(await pair.bodies(SLAVE)) == 20
    await pair.close()


async def test_if_the_slave_loses_its_disk_too_the_master_that_waits_for_it_begins_again(world: SimulatedWorld) -> None:
    pair = await filled(ReplicaSet(world, **SYNC))
    lose_disk(pair, MASTER)
    await pair.start(MASTER)
    lose_disk(pair, SLAVE)
    await world.run_for(seconds=60)
    assert (await pair.state(MASTER)).waits_for_failover, "the slave that is down may still have the messages"
    await pair.start(SLAVE)
    await world.run_for(seconds=10)
    assert await members(pair) == {0: address_of(MASTER), 1: address_of(SLAVE)}
    assert not (await pair.state(MASTER)).waits_for_failover
    await pair.put_topic("orders")
    await pair.until_caught_up()
    assert (await pair.send(b"again")).code == 0
    assert await pair.bodies(SLAVE) == [b"again"]
    await pair.close()


async def test_without_a_nameserver_a_new_disk_costs_the_slave_nothing(world: SimulatedWorld) -> None:
    """The master can't ask who has its messages; when it can, it waits for the slave."""
    pair = await filled(ReplicaSet(world))
    lose_disk(pair, MASTER)
    world.kill("namesrv")
    starting = asyncio.ensure_future(pair.start(MASTER, ha_master_address=""))
    await world.run_for(seconds=5)
    assert len(await pair.bodies(SLAVE)) == 20
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await starting
    await world.run_for(seconds=40)
    assert (await pair.state(MASTER)).waits_for_failover
    assert len(await pair.bodies(SLAVE)) == 20
    assert (await pair.failover()).master == address_of(SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_new_disk_follows_the_new_master_however_long_no_nameserver_answers(world: SimulatedWorld) -> None:
    pair = await filled(ReplicaSet(world))
    lose_disk(pair, MASTER)
    assert (await pair.failover()).master == address_of(SLAVE)
    world.kill("namesrv")
    starting = asyncio.ensure_future(pair.start(MASTER))
    await world.run_for(seconds=90)
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await starting
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(MASTER)) == 20
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_two_new_disks_dont_begin_a_log_before_the_third_machine_is_back(world: SimulatedWorld) -> None:
    """No nameserver knows the third one: it has just started. An empty slave proves nothing about an empty master."""
    trio = await filled(ReplicaSet(world), slaves=2)
    for name in (MASTER, SLAVE):
        lose_disk(trio, name)
    world.kill(SECOND)
    world.kill("namesrv")
    starting = asyncio.ensure_future(trio.start(MASTER))
    await world.run_for(seconds=5)
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await starting
    await trio.start(SLAVE)
    await world.run_for(seconds=5)
    await trio.start(SECOND)
    await world.run_for(seconds=40)
    assert (await trio.state(MASTER)).waits_for_failover
    assert (await trio.failover()).master == address_of(SECOND)
    for name in (MASTER, SLAVE):
        await trio.until_caught_up(name, SECOND)
    assert len(await trio.bodies(MASTER)) == 20
    trio.assert_equal(MASTER, SLAVE, SECOND)
    await trio.close()


async def test_a_new_disk_and_a_new_nameserver_make_no_second_master(world: SimulatedWorld) -> None:
    """The nameserver doesn't know the master that took over, which registers each 30 s."""
    pair = await filled(ReplicaSet(world, register_name_server_period=30_000))
    lose_disk(pair, MASTER)
    assert (await pair.failover()).master == address_of(SLAVE)
    world.kill("namesrv")
    await world.run_for(ms=100)
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await pair.start(MASTER, ha_master_address="")
    await world.run_for(seconds=40)
    assert (await pair.state(MASTER)).role == "SLAVE"
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(MASTER)) == 20
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_without_a_nameserver_a_synchronous_master_accepts_nothing(world: SimulatedWorld) -> None:
    """It lost its end to a power cut, and can't ask who has it."""
    pair = ReplicaSet(world, **SYNC)
    await pair.open()
    assert (await pair.send(b"kept")).code == 0
    pair.brokers[MASTER].state.store.flush()
    for number in range(20):
        assert (await pair.send(b"%d" % number)).code == 0
    had = pair.end(SLAVE)
    world.kill(MASTER, power_loss=True)
    world.kill("namesrv")
    starting = asyncio.ensure_future(pair.start(MASTER))
    await world.run_for(seconds=5)
    assert pair.end(MASTER) < had
    assert (await pair.send(b"no")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    await starting
    await world.run_for(seconds=40)
    assert (await pair.state(MASTER)).waits_for_failover
    assert (await pair.failover()).master == address_of(SLAVE)
    assert len(await pair.bodies(SLAVE)) == 21
    await pair.close()


async def test_a_slave_with_a_new_disk_takes_an_id_that_is_free(world: SimulatedWorld) -> None:
    """A failover has given its id to the old master, and its settings say the same as before."""
    trio = await filled(ReplicaSet(world), slaves=2)
    assert (await trio.failover(to=1)).master == address_of(SLAVE)
    await trio.until_caught_up(MASTER, SLAVE)
    assert await members(trio) == {0: address_of(SLAVE), 1: address_of(MASTER), 2: address_of(SECOND)}
    lose_disk(trio, SLAVE)
    await world.run_for(300)
    assert (await trio.failover(to=2)).master == address_of(SECOND)
    await trio.start(SLAVE)
    await trio.until_caught_up(SLAVE, SECOND)
    await world.run_for(seconds=1)
    found = await members(trio)
    assert sorted(found.values()) == sorted(map(address_of, (MASTER, SLAVE, SECOND)))
    assert found[0] == address_of(SECOND)
    assert found[1] == address_of(MASTER)
    trio.assert_equal(MASTER, SLAVE, SECOND)
    await trio.close()


async def test_a_slave_that_was_away_gives_up_its_id(world: SimulatedWorld) -> None:
    trio = await filled(ReplicaSet(world), slaves=2)
    await world.stop(SLAVE)
    await trio.restart(SECOND, broker_id=2)
    lose_disk(trio, SECOND)
    await trio.start(SECOND, broker_id=1)
    await trio.until_caught_up(SECOND)
    await trio.start(SLAVE)
    await trio.until_caught_up(SLAVE)
    await world.run_for(seconds=31)
    assert await members(trio) == {0: address_of(MASTER), 1: address_of(SECOND), 2: address_of(SLAVE)}
    await trio.close()


async def test_a_slave_remembers_over_a_restart_that_another_one_took_over(world: SimulatedWorld) -> None:
    trio = await filled(ReplicaSet(world), slaves=2)
    world.freeze(MASTER)
    assert (await trio.failover(to=1)).epoch == 2
    world.partition(SECOND, SLAVE)
    await trio.restart(SECOND)
    assert (await trio.state(SECOND)).least_epoch == 2
    world.heal(SECOND, SLAVE)
    world.thaw(MASTER)
    await trio.until_caught_up(SECOND, SLAVE)
    await trio.close()


async def test_a_restarted_nameserver_is_no_reason_to_take_over(world: SimulatedWorld) -> None:
    """The slaves register before their master."""
    pair = await filled(ReplicaSet(world))
    async with pair.watched():
        await world.run_for(2 * POLL_MS)
        world.partition(MASTER, "namesrv")
        world.kill("namesrv")
        await world.run_for(10)
        await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
        await world.run_for(seconds=35)
        assert await members(pair) == {1: address_of(SLAVE)}
        await world.run_for(20 * POLL_MS)
        assert (await pair.state(SLAVE)).role == "SLAVE"
    world.heal(MASTER, "namesrv")
    await pair.close()


async def test_no_slave_takes_over_that_may_lack_what_was_acknowledged(world: SimulatedWorld) -> None:
    """The second slave copies nothing, and the first one, which has all, is down when the master dies."""
    trio = await filled(ReplicaSet(world, **SYNC), slaves=2)
    async with trio.watched():
        await world.run_for(500)
        await trio.control(SECOND, hold=True)
        assert (await trio.send(b"acknowledged")).code == ResponseCode.SUCCESS
        world.kill(SLAVE)
        world.kill(MASTER)
        await world.run_for(seconds=5)
        assert (await trio.state(SECOND)).role == "SLAVE"
        await trio.start(MASTER)
        await trio.start(SLAVE)
        await trio.until_caught_up(SLAVE)
        world.kill(MASTER)
        await world.run_for(seconds=2)
        assert (await trio.state(SLAVE)).role == "SYNC_MASTER"
        assert (await trio.bodies(SLAVE))[-1] == b"acknowledged"
    await trio.close()


async def test_a_slave_whose_log_is_damaged_in_its_middle_copies_all_of_it(world: SimulatedWorld) -> None:
    """A failed fsync left a hole: recovery keeps what follows, which isn't the master's log any more."""
    pair = ReplicaSet(world, flush_disk_type="SYNC_FLUSH", slave_sync_period=60_000)
    await filled(pair)
    inner = sorted(world.disk(SLAVE).files)
    log = next(path for path in inner if "/commitlog/" in path)
    world.kill(SLAVE)
    world.machine(SLAVE).files.remove("/store/checkpoint")  # So that recovery reads all of the log.
    world.disk(SLAVE).rot(log, pair.end(SLAVE) // 2, 0xFF)
    await pair.start(SLAVE, salvage=True)
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_log_that_is_damaged_where_it_must_be_cut_is_copied_again(world: SimulatedWorld) -> None:
    """Two damaged records are one hole, and the new master's log begins in the middle of it."""
    pair = ReplicaSet(world, flush_disk_type="SYNC_FLUSH", salvage=True)
    await filled(pair)
    cut = pair.end(MASTER)
    await pair.control(SLAVE, hold=True)
    for number in range(3):
        assert (await pair.send(b"lost %d" % number)).code == 0
    log = next(path for path in sorted(world.disk(MASTER).files) if "/commitlog/" in path)
    world.kill(MASTER)
    world.machine(MASTER).files.remove("/store/checkpoint")  # So that recovery reads all of the log.
    for position in (cut - 10, cut + 10):
        world.disk(MASTER).rot(log, position, 0xFF)
    assert (await pair.failover(losing=3)).master == address_of(SLAVE)
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(MASTER)) == 20
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


def damage_middle(of: ReplicaSet) -> None:
    """Kill the master, and lose a message that its disk hadn't confirmed, as after a failed fsync."""
    log = next(path for path in sorted(of.world.disk(MASTER).files) if "/commitlog/" in path)
    position = of.end(MASTER) // 2
    of.world.kill(MASTER)
    of.world.disk(MASTER).rot(log, position, 0xFF)


UNSYNCED: dict[str, Any] = {"flush_interval_commit_log": 60_000}


async def test_a_master_that_lost_a_part_of_its_log_waits_for_the_slave_that_has_it(world: SimulatedWorld) -> None:
    pair = await filled(ReplicaSet(world, **SYNC, **UNSYNCED))
    damage_middle(pair)
    await pair.start(MASTER)
    assert (await pair.state(MASTER)).waits_for_failover
    assert "this master lost a part of its log" in (await pair.send(b"no")).remark
    assert (await pair.failover()).master == address_of(SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    assert len(await pair.bodies(MASTER)) == 20
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_kill_right_after_the_repair_of_a_log_forgets_no_loss(world: SimulatedWorld) -> None:
    """The next start finds no damage any more. The slave has what was lost, at whatever step the first start ended."""
    pair = await filled(ReplicaSet(world, **SYNC, **UNSYNCED))
    damage_middle(pair)
    damaged, trouble, step, is_killed = world.disk(MASTER).image(), DiskTrouble(world, MASTER), 0, True
    while is_killed:
        step += 1
        world.disk(MASTER).put_back(deepcopy(damaged))
        trouble.end_at_step(step, lambda: world.kill(MASTER))
        with suppress(ProcessKilled):
            await pair.start(MASTER)
            is_killed = False
            world.kill(MASTER)
        trouble.mend()
        await pair.start(MASTER)
        assert (await pair.state(MASTER)).waits_for_failover, f"killed before step {step} of the disk"
        world.kill(MASTER)
    await pair.close()


async def test_slaves_have_what_an_asynchronous_master_has_that_lost_a_part_of_its_log(world: SimulatedWorld) -> None:
    pair = await filled(ReplicaSet(world, **UNSYNCED))
    damage_middle(pair)
    await pair.start(MASTER)
    await world.run_for(seconds=3)
    await pair.until_caught_up()
    assert b"10" not in await pair.bodies(SLAVE)
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_slave_keeps_the_part_that_its_synchronous_master_lost_while_it_was_away(world: SimulatedWorld) -> None:
    """Nothing but the place of the damage shows the master that the slave has more: both logs have the same end."""
    pair = await filled(ReplicaSet(world, **SYNC, **UNSYNCED))
    world.kill(SLAVE)
    damage_middle(pair)
    await pair.start(MASTER)
    await pair.start(SLAVE)
    await world.run_for(seconds=5)
    assert "has other messages than its master, which lost a part of its log" in (await pair.state(SLAVE)).problem
    assert len(await pair.bodies(SLAVE)) == 20
    await pair.close()


async def test_a_slave_with_a_new_disk_doesnt_count_before_it_has_had_everything(world: SimulatedWorld) -> None:
    """With it, two of three machines would answer, and neither needs to have what the master and a third one had."""
    trio = await filled(ReplicaSet(world, **SYNC), slaves=2)
    lose_disk(trio, SECOND)
    await trio.start(SECOND, replication_hold=True)
    world.kill(MASTER)
    await world.run_for(100)
    with pytest.raises(ClientError, match="1 of its slaves answer and had everything, and 2 must"):
        await trio.admin.failover(MASTER, accepts_loss=True, whole_needed=2)
    await trio.close()
