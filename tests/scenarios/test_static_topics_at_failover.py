"""A slave has the mappings of its master's static topics, and serves their logical queues after a failover."""

from typing import Any

import pytest

from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.protocol.requests.static_topics import MappingDetail, MappingItem, UpdateStaticTopic
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
START = 10_000
# The logical queue 0 was at broker-b before, and is at broker-a from offset 10,000 on.
ITEMS = [MappingItem(0, 0, "broker-b", 0), MappingItem(1, 0, MASTER, START)]


async def put_ledger(pair: ReplicaSet) -> None:
    detail = MappingDetail("ledger", MASTER, 1, 1_000, hosted_queues={0: ITEMS})
    assert (await pair.ask(MASTER, UpdateStaticTopic("ledger", 1, 1, 6, body=detail))).code == 0


async def end_at(pair: ReplicaSet, name: str) -> int:
    answer = await pair.ask(name, GetMaxOffset("ledger", 0))
    assert answer.code == 0, answer.remark
    return int(answer.offset)


@pytest.mark.parametrize("restarts_slave", [False, True])
async def test_logical_queues_continue_at_the_new_master(world: SimulatedWorld, restarts_slave: bool) -> None:
    pair = await ReplicaSet(world).open()
    await put_ledger(pair)
    for number in range(5):
        assert (await pair.send(b"%d" % number, topic="ledger")).queue_offset == START + number
    await pair.until_caught_up()
    await world.run_for(seconds=2)
    if restarts_slave:
        await pair.restart(SLAVE)
    assert (await pair.failover()).lost == 0
    assert await end_at(pair, SLAVE) == START + 5
    assert (await pair.send(b"5", SLAVE, topic="ledger")).queue_offset == START + 5
    pulled: Any = await pair.pull(SLAVE, START + 3, topic="ledger")
    assert [record.body for record in pulled.body.records] == [b"3", b"4", b"5"]
    await pair.close()


async def test_a_static_topic_that_was_just_created_or_deleted_survives_its_master(world: SimulatedWorld) -> None:
    settings: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_sync_period": 60_000}
    pair = await ReplicaSet(world, **settings).open()
    await put_ledger(pair)
    mappings = pair.brokers[SLAVE].tables.static_topics.by_topic
    assert list(mappings) == ["ledger"]
    assert (await pair.ask(MASTER, DeleteTopic("ledger"))).code == 0
    assert not mappings
    await put_ledger(pair)
    world.kill(MASTER)
    await pair.failover()
    assert pair.brokers[SLAVE].tables.static_topics.by_topic["ledger"].hosted_queues == {0: ITEMS}
    await pair.close()


async def test_a_slave_has_no_mapping_that_a_restored_snapshot_of_its_master_lacks(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    assert (await pair.ask(MASTER, SaveSnapshot("one"))).code == 0
    await put_ledger(pair)
    await world.run_for(seconds=2)
    assert (await pair.ask(MASTER, RestoreSnapshot("one"))).code == 0
    await world.run_for(seconds=2)
    assert [list(pair.brokers[name].tables.static_topics.by_topic) for name in (MASTER, SLAVE)] == [[], []]
    await put_ledger(pair)
    await world.run_for(seconds=2)
    assert [list(pair.brokers[name].tables.static_topics.by_topic) for name in (MASTER, SLAVE)] == [["ledger"]] * 2
    await pair.close()
