"""A failover, a reset and a snapshot restored, one after the other: all replicas are equal afterwards."""

import pytest

from staticfire.protocol.command import Request
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")


async def test_a_held_slave_takes_over_after_a_reset(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    await pair.control(SLAVE, hold=True)
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await pair.put_topic("new")
    assert (await pair.send(b"lost", topic="new")).code == 0
    assert (await pair.failover(losing=1)).lost == 1
    await pair.until_caught_up(MASTER, SLAVE)
    await pair.put_topic("new", SLAVE)
    await pair.control(MASTER, copy_state=True)
    await world.run_for(100)
    assert (await pair.send(b"kept", SLAVE, "new")).code == 0
    await pair.until_caught_up(MASTER, SLAVE)
    assert await pair.bodies(MASTER, "new") == [b"kept"]
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()


async def test_what_the_new_master_lacks_is_removed_and_nothing_is_copied_again(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=10)
    await pair.failover(losing=3)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)
    assert [line.event for line in logged if line.event == "log_cut"] == ["log_cut"]
    await pair.close()


async def test_a_slave_joins_while_its_registration_takes_long(world: SimulatedWorld) -> None:
    """It must remove what the new master lacks, before a nameserver that doesn't answer is given up."""
    pair = ReplicaSet(world, namesrv_addr=f"{NAMESRV};10.0.0.2:9876")
    await pair.open()
    await pair.fill(messages=3)
    await pair.control(SLAVE, hold=True)
    await pair.send(b"lost")
    world.freeze(MASTER)
    await pair.failover(losing=1)
    world.thaw(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()


async def test_a_held_slave_whose_master_was_restored_says_how_it_takes_over(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    assert (await pair.ask(MASTER, SaveSnapshot("one"))).code == 0
    await pair.control(SLAVE, hold=True)
    await pair.send(b"later")
    await world.run_for(100)
    assert (await pair.ask(MASTER, RestoreSnapshot("one"))).code == 0
    with pytest.raises(ClientError, match=r"doesn't copy its master: its copy is held: .*release broker-a-1"):
        await pair.failover(losing=9)
    await pair.control(SLAVE, hold=False)
    await pair.until_caught_up()
    assert (await pair.failover()).lost == 0
    await pair.until_caught_up(MASTER, SLAVE)
    assert await pair.bodies(SLAVE) == [b"0", b"1", b"2"]
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()


async def test_a_topic_that_was_deleted_just_before_a_failover_stays_deleted(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await pair.failover()
    assert "orders" not in pair.brokers[SLAVE].tables.topics.topics
    assert "orders" not in pair.brokers[SLAVE].state.store.topics()
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()


@pytest.mark.parametrize("request_", [DeleteTopic("orders"), Reset()], ids=["delete", "reset"])
async def test_nothing_is_deleted_while_a_master_hands_over(world: SimulatedWorld, request_: Request) -> None:
    """The slave has copied all deletions by then, and wouldn't learn of another one."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    await pair.ask(MASTER, ControlReplication(fence_ms=5_000))
    refused = await pair.ask(MASTER, request_)
    assert (refused.code, "hands over to a slave" in (refused.remark or "")) == (2, True)
    assert len(await pair.bodies(MASTER)) == 3
    await pair.ask(MASTER, ControlReplication(fence_ms=0))
    assert (await pair.ask(MASTER, request_)).code == 0
    await pair.close()


async def test_a_deletion_that_the_new_master_never_saw_is_taken_back(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    """The old master must have the same queues as the new one when it is back as a slave."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    world.kill(MASTER)
    await pair.failover()
    assert (await pair.send(b"3", SLAVE)).code == 0
    await pair.start(MASTER)
    await world.run_for(seconds=3)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)
    assert [line.event for line in logged if line.event == "message_in_no_queue"] == []
    assert await pair.bodies(MASTER) == [b"0", b"1", b"2", b"3"]
    await pair.close()


async def test_a_new_master_that_has_lost_all_messages_on_request_begins_again(world: SimulatedWorld) -> None:
    """Its empty log isn't that of a new disk, so it doesn't wait for the slave that has the lost messages."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=10)
    assert (await pair.failover(losing=10)).lost == 10
    world.kill(SLAVE)
    world.kill(MASTER)
    await world.run_for(10)
    await pair.start(MASTER)
    await pair.start(SLAVE)
    assert (await pair.send(b"new", SLAVE)).code == 0
    await pair.until_caught_up(MASTER, SLAVE)
    assert await pair.bodies(MASTER) == [b"new"]
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()
