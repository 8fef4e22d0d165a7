"""Topics that are created, changed and deleted shortly before and during a failover: what was answered stays."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Request
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.faults import AddFault, FaultRule
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.protocol.requests.topics import DeleteTopic, TopicConfig, TopicConfigList, UpdateTopic, UpdateTopics
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SECOND, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
SYNC: dict[str, Any] = {
    "broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_sync_period": 60_000, "slave_timeout": 3_000,
    "auto_create_topic_enable": False,
}  # fmt: skip


def topics_of(of: ReplicaSet, name: str) -> dict[str, TopicConfig]:
    return of.brokers[name].tables.topics.topics


async def test_a_topic_that_was_just_created_survives_its_master(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    await pair.put_topic("new")
    world.kill(MASTER)
    await pair.failover()
    assert (await pair.send(b"kept", SLAVE, topic="new", WAIT="false")).code == 0
    assert await pair.bodies(SLAVE, "new") == [b"kept"]
    await pair.close()


async def test_more_queues_and_deletions_survive_too(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    await pair.put_topic("old")
    assert (await pair.send(b"deleted", topic="old")).code == 0
    assert (await pair.ask(MASTER, UpdateTopic("orders", 5, 5, 6))).code == 0
    assert (await pair.ask(MASTER, DeleteTopic("old"))).code == 0
    world.kill(MASTER)
    await pair.failover()
    assert topics_of(pair, SLAVE)["orders"].write_queue_nums == 5
    assert "old" not in topics_of(pair, SLAVE)
    assert "old" not in pair.brokers[SLAVE].state.store.topics()
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    assert "old" not in topics_of(pair, MASTER)
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_as_many_slaves_have_it_as_a_send_waits_for(world: SimulatedWorld) -> None:
    trio = await ReplicaSet(world, **SYNC | {"in_sync_replicas": 3}).open(slaves=2)
    await trio.put_topic("new")
    assert "new" in topics_of(trio, SLAVE)
    assert "new" in topics_of(trio, SECOND)
    await trio.close()


async def test_it_waits_for_a_slave_that_is_silent_but_not_for_ever(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open()
    world.freeze(SLAVE)
    began_ms = world.uptime_ms
    await pair.put_topic("new")
    assert 3_000 <= world.uptime_ms - began_ms < 3_500
    world.thaw(SLAVE)
    await world.run_for(seconds=1)
    assert "new" in topics_of(pair, SLAVE)
    await pair.close()


async def test_without_a_slave_a_topic_waits_for_no_other(world: SimulatedWorld) -> None:
    alone = await ReplicaSet(world, **SYNC).open(slaves=0)
    began_ms = world.uptime_ms
    await alone.put_topic("new")
    assert world.uptime_ms - began_ms < 100
    await alone.close()


async def test_an_asynchronous_master_answers_at_once_and_the_topic_comes_with_the_period(
    world: SimulatedWorld,
) -> None:
    pair = await ReplicaSet(world, slave_sync_period=10_000).open()
    await world.run_for(seconds=1)  # The first round is over.
    await pair.put_topic("new")
    await world.run_for(seconds=2)
    assert "new" not in topics_of(pair, SLAVE)
    await world.run_for(seconds=10)
    assert "new" in topics_of(pair, SLAVE)
    await pair.close()


@pytest.mark.parametrize("is_synchronous", [True, False])
async def test_a_topic_that_was_created_just_before_a_failover_is_there(
    world: SimulatedWorld, is_synchronous: bool
) -> None:
    settings: dict[str, Any] = SYNC if is_synchronous else {"slave_sync_period": 60_000}
    pair = await ReplicaSet(world, **settings).open()
    await asyncio.gather(pair.put_topic("new"), pair.failover())
    assert "new" in topics_of(pair, SLAVE)
    await pair.close()


NEW = [
    UpdateTopic("new", 1, 1, 6),
    UpdateTopic("orders", 5, 5, 6),
    UpdateTopics(body=TopicConfigList([TopicConfig("new", 1, 1, 6)])),
]


@pytest.mark.parametrize("request_", NEW, ids=["new", "changed", "list"])
async def test_no_topic_is_created_or_changed_while_a_master_hands_over(
    world: SimulatedWorld, request_: Request
) -> None:
    """The slave has copied all topics by then, and wouldn't learn of another one."""
    pair = await ReplicaSet(world).open()
    before = dict(topics_of(pair, MASTER))
    await pair.ask(MASTER, ControlReplication(fence_ms=5_000))
    refused = await pair.ask(MASTER, request_)
    assert (refused.code, "hands over to a slave: try again" in (refused.remark or "")) == (2, True)
    assert topics_of(pair, MASTER) == before
    await pair.ask(MASTER, ControlReplication(fence_ms=0))
    assert (await pair.ask(MASTER, request_)).code == 0
    await pair.close()


async def test_a_slave_that_can_not_copy_the_topics_takes_over_only_on_request(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, slave_sync_period=60_000).open()
    await world.run_for(seconds=1)
    await pair.put_topic("new")
    rule = FaultRule(number=1, action="answer with", codes=[RequestCode.COPY_STATE], answer_code=2)
    assert (await pair.ask(MASTER, AddFault(body=rule))).code == 0
    with pytest.raises(ClientError, match=r"has the whole log, but not the topics.*try again, or .*--losing 0"):
        await pair.failover()
    assert (await pair.send(b"still the master")).code == 0
    assert (await pair.failover(losing=0)).lost == 0
    assert "new" not in topics_of(pair, SLAVE)
    await pair.close()
