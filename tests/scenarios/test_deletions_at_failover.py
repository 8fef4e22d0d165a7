"""Topics and groups are deleted and created again, and then a slave takes over: it has what its master has."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.command import Request
from staticfire.protocol.requests.groups import DeleteGroup, SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.protocol.requests.upkeep import CleanTopics
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
DELETIONS: dict[str, Request] = {
    "topic": DeleteTopic("orders"), "cluster": Reset(), "group": DeleteGroup("billing", clean_offset=True),
}  # fmt: skip
deletions = pytest.mark.parametrize("deletion", DELETIONS.values(), ids=DELETIONS.keys())


async def consumed(world: SimulatedWorld, **settings: Any) -> ReplicaSet:
    """Return a set in which a group has consumed all 50 messages, and the slave knows it."""
    pair = await ReplicaSet(world, **settings).open()
    await put_group(pair)
    await pair.fill(messages=50)
    assert (await pair.ask(MASTER, UpdateConsumerOffset("billing", "orders", 0, 50))).code == 0
    await pair.control(SLAVE, copy_state=True)
    await world.run_for(seconds=1)
    assert await committed(pair, SLAVE) == 50
    return pair


async def put_group(pair: ReplicaSet) -> None:
    group = UpdateGroup(body=SubscriptionGroupConfig(group_name="billing"))
    assert (await pair.ask(MASTER, group)).code == 0


async def committed(pair: ReplicaSet, name: str) -> int:
    answer = await pair.ask(name, QueryConsumerOffset("billing", "orders", 0, set_zero_if_not_found=False))
    return int(answer.offset) if answer.code == 0 else -1


@deletions
async def test_a_new_master_has_no_offsets_of_what_was_deleted(world: SimulatedWorld, deletion: Request) -> None:
    pair = await consumed(world)
    assert (await pair.ask(MASTER, deletion)).code == 0
    await put_group(pair)
    await pair.put_topic("orders")
    await pair.fill(messages=10)
    assert (await pair.failover()).lost == 0
    assert await committed(pair, SLAVE) == -1
    assert pair.brokers[SLAVE].tables.groups.offsets.topics_of("billing") == []
    await pair.close()


@deletions
async def test_a_slave_that_was_down_during_the_deletion_forgets_them_too(
    world: SimulatedWorld, deletion: Request
) -> None:
    pair = await consumed(world)
    await world.stop(SLAVE)
    assert (await pair.ask(MASTER, deletion)).code == 0
    await put_group(pair)
    await pair.put_topic("orders")
    await pair.start(SLAVE)
    await pair.fill(messages=10)
    await world.run_for(seconds=2)
    assert await committed(pair, SLAVE) == -1
    await pair.close()


async def test_offsets_that_wait_for_a_lagging_log_are_forgotten_with_their_topic(world: SimulatedWorld) -> None:
    pair = await consumed(world, slave_sync_period=60_000)
    await pair.control(SLAVE, lag_ms=8_000)
    await pair.send(b"the log of the slave is too short for the next offset")
    assert (await pair.ask(MASTER, UpdateConsumerOffset("billing", "orders", 0, 51))).code == 0
    await pair.control(SLAVE, copy_state=True)
    await world.run_for(seconds=2)
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await pair.put_topic("orders")
    await pair.send(b"new")
    await world.run_for(seconds=20)
    world.kill(MASTER)
    await pair.failover()
    assert (await committed(pair, SLAVE), await pair.bodies(SLAVE)) == (-1, [b"new"])
    await pair.close()


async def test_offsets_that_only_the_slave_has_stay_after_a_deletion_elsewhere(world: SimulatedWorld) -> None:
    pair = await consumed(world)
    await pair.put_topic("others")
    await pair.pull(SLAVE, 0, "shipping")
    assert (await pair.ask(SLAVE, UpdateConsumerOffset("shipping", "orders", 0, 7))).code == 0
    assert (await pair.ask(MASTER, DeleteTopic("others"))).code == 0
    await world.run_for(seconds=3)
    offsets = pair.brokers[SLAVE].tables.groups.offsets
    assert (offsets.committed("shipping", "orders", 0), offsets.committed("billing", "orders", 0)) == (7, 50)
    await pair.close()


@pytest.mark.parametrize("request_", [CleanTopics(), DeleteTopic("new")], ids=["clean", "delete"])
async def test_a_slave_keeps_the_messages_of_its_master_whatever_it_deletes(
    world: SimulatedWorld, request_: Request
) -> None:
    """mqadmin sends cleanUnusedTopic to slaves, too, and one may not know a topic that is younger than its copy."""
    pair = await ReplicaSet(world, slave_sync_period=60_000).open()
    await world.run_for(seconds=2)
    await pair.put_topic("new")
    if isinstance(request_, DeleteTopic):
        await pair.control(SLAVE, copy_state=True)
    bodies = [b"%d" % number for number in range(10)]
    for body in bodies:
        await pair.send(body, topic="new")
    await pair.until_caught_up()
    assert (await pair.ask(SLAVE, request_)).code == 0
    await pair.send(b"more", topic="new")
    await pair.until_caught_up()
    assert (await pair.failover()).lost == 0
    await pair.until_caught_up(MASTER, SLAVE)
    await pair.ask(MASTER, ControlReplication(copy_state=True))
    await world.run_for(seconds=1)
    for name in (SLAVE, MASTER):
        assert await pair.bodies(name, "new") == [*bodies, b"more"]
    await pair.close()


async def test_a_slave_that_learns_late_of_a_deletion_keeps_the_newer_messages(world: SimulatedWorld) -> None:
    """Its note of the deletion was lost, so its log has more than the deletion's position when it joins again."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await pair.put_topic("orders")
    await pair.send(b"newer")
    await pair.until_caught_up()
    await world.stop(SLAVE)
    world.machine(SLAVE).files.remove("/store/deletedTopics")
    await pair.start(SLAVE)
    await pair.until_caught_up()
    await pair.send(b"newest")
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"newer", b"newest"] == await pair.bodies(MASTER)
    await pair.close()


async def test_pulls_that_a_slave_holds_are_answered_at_a_deletion(world: SimulatedWorld) -> None:
    """With its old offset, a pull that waited on would skip messages of a new topic of that name."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=10)
    await pair.until_caught_up()
    pull = asyncio.ensure_future(pair.pull(SLAVE, 10, hold_ms=15_000))
    await world.run_for(seconds=1)
    assert not pull.done()
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await world.run_for(seconds=6)  # The slave learns of it with the next response of its master.
    assert pull.done()
    await pair.close()
