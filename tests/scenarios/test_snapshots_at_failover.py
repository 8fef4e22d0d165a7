"""Snapshots that are saved and restored while a slave takes over: nothing is lost, and a refusal says what to do."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.command import Request
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
REQUESTS = [SaveSnapshot("two"), RestoreSnapshot("one"), Reset()]
IDS = ["save", "restore", "reset"]


async def pair_with_snapshot(world: SimulatedWorld, **settings: Any) -> ReplicaSet:
    pair = await ReplicaSet(world, **settings).open()
    await pair.fill(messages=3)
    assert (await pair.ask(MASTER, SaveSnapshot("one"))).code == 0
    await pair.until_caught_up()
    return pair


@pytest.mark.parametrize("request_", REQUESTS, ids=IDS)
async def test_a_slave_says_that_its_master_is_saved_and_restored(world: SimulatedWorld, request_: Request) -> None:
    """Whoever looked for the master before a failover reaches a slave."""
    pair = await pair_with_snapshot(world)
    await pair.failover()
    refused = await pair.ask(MASTER, request_)
    words = "this broker is a slave: only a master is reset, saved or restored; during a failover, try again after it"
    assert (refused.code, refused.remark) == (2, words)
    await pair.close()


@pytest.mark.parametrize("request_", REQUESTS, ids=IDS)
async def test_a_master_that_hands_over_is_neither_saved_nor_restored(world: SimulatedWorld, request_: Request) -> None:
    """It would accept messages again, which the slave that takes over doesn't have."""
    pair = await pair_with_snapshot(world)
    await pair.ask(MASTER, ControlReplication(fence_ms=5_000))
    refused = await pair.ask(MASTER, request_)
    assert (refused.code, "hands over to a slave: try again" in (refused.remark or "")) == (2, True)
    assert (await pair.send(b"no")).code != 0
    await pair.ask(MASTER, ControlReplication(fence_ms=0))
    assert (await pair.ask(MASTER, request_)).code == 0
    await pair.close()


async def test_an_old_master_has_the_topics_of_the_new_one_although_both_have_one_version(
    world: SimulatedWorld,
) -> None:
    """Message time stands, so each makes the same version of it, with different topics."""
    pair = await ReplicaSet(world, slave_sync_period=5_000).open()
    await world.run_for(seconds=6)
    assert (await pair.pool.ask(NAMESRV, Clock("freeze"))).code == 0
    await pair.put_topic("old")
    world.kill(MASTER)
    await world.run_for(seconds=1)
    await pair.failover()
    await pair.put_topic("new", SLAVE)
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    await world.run_for(seconds=10)
    for name in (MASTER, SLAVE):
        topics = pair.brokers[name].tables.topics.topics
        assert ("old" in topics, "new" in topics) == (False, True)
    await pair.close()


@pytest.mark.parametrize("pause_ms", [0, 1, 2, 5, 10, 20])
async def test_what_is_acknowledged_beside_a_snapshot_and_a_failover_is_there(
    world: SimulatedWorld, pause_ms: int
) -> None:
    pair = await pair_with_snapshot(world)
    acknowledged = []

    async def send() -> None:
        for number in range(40):
            body = b"more %d" % number
            if (await pair.send(body)).code == 0:
                acknowledged.append(body)
            await world.run_for(1)

    async def save() -> None:
        await world.run_for(pause_ms)
        await pair.ask(MASTER, SaveSnapshot("two"))

    await asyncio.gather(send(), save(), pair.failover())
    await pair.until_caught_up(MASTER, SLAVE)
    assert acknowledged == (await pair.bodies(SLAVE))[3:][: len(acknowledged)]
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


@pytest.mark.parametrize("slaves", [0, 1])
async def test_what_was_created_after_a_restore_is_known_also_while_message_time_stands(
    world: SimulatedWorld, slaves: int
) -> None:
    """The restored tables count their changes from an earlier number on, and each has the same time."""
    pair = await ReplicaSet(world).open(slaves=slaves)
    assert (await pair.pool.ask(NAMESRV, Clock("freeze"), 30_000)).code == 0
    await pair.send(b"1")
    assert (await pair.ask(MASTER, SaveSnapshot("one"))).code == 0

    async def create(name: str) -> None:
        await pair.put_topic(name)
        group = SubscriptionGroupConfig(group_name=name)
        assert (await pair.ask(MASTER, UpdateGroup(body=group))).code == 0
        await world.run_for(seconds=3)

    await create("before")
    assert (await pair.ask(MASTER, RestoreSnapshot("one"))).code == 0
    await create("after")
    for name in (MASTER, SLAVE)[: 1 + slaves]:
        tables = pair.brokers[name].tables
        for known in (tables.topics, tables.groups.configs):
            assert (known.get("before"), known.get("after") is not None) == (None, True)
    assert (await pair.pool.ask(NAMESRV, GetRoute("after"), 3_000)).code == 0
    version = pair.brokers[MASTER].tables.topics.version
    await pair.restart(MASTER)
    assert pair.brokers[MASTER].tables.topics.version == version
    await pair.close()
