"""A slave copies the log of its master, byte by byte."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio

from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.access import AclInfo, CreateAcl, CreateUser, EntryInfo, GetUser, PolicyInfo, UserInfo
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.replication import GetReplication
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.protocol.requests.topics import DeleteTopic, UpdateTopic
from staticfire.runtime.credentials import Credentials
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, SECOND, SEGMENT_BYTES, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")
MIB = 1024 * 1024


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ReplicaSet]:
    """A master and a slave, with the settings that a test is parametrized with."""
    pair = ReplicaSet(world, **getattr(request, "param", {}))
    yield await pair.open()
    await pair.close()


async def test_the_log_of_a_slave_is_that_of_its_master(pair: ReplicaSet) -> None:
    for number in range(300):  # several segments
        assert (await pair.send(b"%d" % number * 200)).code == 0
    assert pair.end(MASTER) > 2 * SEGMENT_BYTES
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    assert await pair.bodies(SLAVE) == await pair.bodies(MASTER)


async def test_a_slave_that_starts_late_gets_everything(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open(slaves=0)
    for number in range(200):
        await pair.send(b"%d" % number * 300)
    await pair.start(SLAVE)
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_pull_that_waits_at_a_slave_gets_what_is_copied(pair: ReplicaSet, world: SimulatedWorld) -> None:
    pull = asyncio.ensure_future(pair.pull(SLAVE, 0, hold_ms=15_000))
    await world.run_for(100)
    assert not pull.done()
    began_ms = world.uptime_ms
    await pair.send(b"woken")
    answer = await pull
    assert [record.body for record in answer.body.records] == [b"woken"]
    assert world.uptime_ms - began_ms < 200


@pytest.mark.parametrize("power_loss", [False, True])
async def test_a_killed_slave_continues_where_it_was(pair: ReplicaSet, world: SimulatedWorld, power_loss: bool) -> None:
    for round_ in range(5):
        for number in range(40):
            await pair.send(b"%d-%d" % (round_, number) * 50)
        await pair.kill_and_start(SLAVE, power_loss)
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    assert len(await pair.bodies(SLAVE)) == 200


async def test_a_slave_waits_for_its_killed_master(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.send(b"before")
    await pair.until_caught_up()
    world.kill(MASTER)
    await world.run_for(seconds=3)
    state = await pair.state(SLAVE)
    assert "no master of broker-a is known" in state.problem or "connect" in state.problem
    assert await pair.bodies(SLAVE) == [b"before"]
    await pair.start(MASTER)
    await pair.send(b"after")
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"before", b"after"]


async def test_a_held_copy_stores_nothing_until_it_is_released(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.control(SLAVE, hold=True)
    await pair.send(b"held")
    await world.run_for(seconds=30)
    assert await pair.bodies(SLAVE) == []
    state = await pair.state(MASTER)
    assert [(one.behind_bytes > 0, one.in_sync) for one in state.followers] in ([(True, False)], [])
    await pair.control(SLAVE, hold=False)
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"held"]


async def test_a_copy_with_a_lag_stores_each_message_later(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.control(SLAVE, lag_ms=2_000)
    for number in range(4):
        await pair.send(b"%d" % number)
        await world.run_for(seconds=1)
    seen = len(await pair.bodies(SLAVE))
    assert 1 <= seen <= 3
    await world.run_for(seconds=2.5)
    assert len(await pair.bodies(SLAVE)) == 4
    await pair.control(SLAVE, lag_ms=0)
    await pair.send(b"at once")
    await world.run_for(100)
    assert len(await pair.bodies(SLAVE)) == 5


@pytest.mark.parametrize("pair", [{"slave_sync_period": 60_000}], indirect=True)
async def test_topics_and_offsets_follow_after_the_period_or_on_request(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    await world.run_for(100)
    await pair.put_topic("new")
    await pair.send(b"1", topic="new")
    await pair.until_caught_up()
    assert (await pair.pull(SLAVE, 0, topic="new")).code == ResponseCode.TOPIC_NOT_EXIST
    await pair.control(SLAVE, copy_state=True)
    await world.run_for(100)
    assert (await pair.pull(SLAVE, 0, topic="new")).code == 0


async def test_an_offset_of_the_master_replaces_a_higher_one_of_the_slave(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    async def commit(name: str, group: str, offset: int, queue_id: int = 0) -> None:
        assert (await pair.ask(name, UpdateConsumerOffset(group, "orders", queue_id, offset))).code == 0

    async def committed(group: str, queue_id: int = 0) -> int:
        answer = await pair.ask(SLAVE, QueryConsumerOffset(group, "orders", queue_id, set_zero_if_not_found=False))
        return int(answer.offset) if answer.code == 0 else -1

    assert (await pair.ask(MASTER, UpdateTopic("orders", 2, 2, 6))).code == 0
    for number in range(10):
        await pair.send(b"%d" % number)
    for name in (MASTER, SLAVE):
        for group in ("billing", "shipping"):
            await pair.pull(name, 0, group)
    await commit(MASTER, "billing", 3)
    await commit(SLAVE, "billing", 10)
    await commit(SLAVE, "billing", 5, queue_id=1)
    await commit(SLAVE, "shipping", 7)
    await world.run_for(seconds=2)
    assert await committed("billing") == 3
    assert await committed("billing", queue_id=1) == -1, "the master has offsets of this group, and none here"
    assert await committed("shipping") == 7


async def test_a_topic_that_is_deleted_and_created_again_begins_empty_at_the_slave(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    for number in range(5):
        await pair.send(b"old %d" % number)
    await pair.until_caught_up()
    assert (await pair.ask(MASTER, DeleteTopic("orders"))).code == 0
    await pair.put_topic("orders")
    await pair.send(b"new")
    await pair.until_caught_up()
    await world.run_for(seconds=2)
    assert await pair.bodies(SLAVE) == await pair.bodies(MASTER) == [b"new"]
    await pair.restart(SLAVE)
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"new"]
    pair.assert_equal(MASTER, SLAVE)


async def test_two_slaves_copy_one_master(world: SimulatedWorld) -> None:
    trio = await ReplicaSet(world).open(slaves=2)
    for number in range(50):
        await trio.send(b"%d" % number)
    await trio.until_caught_up(SLAVE)
    await trio.until_caught_up(SECOND)
    trio.assert_equal(MASTER, SLAVE, SECOND)
    assert [one.broker_id for one in (await trio.state(MASTER)).followers] == [1, 2]
    await trio.close()


ALLOWED = AclInfo(policies=[PolicyInfo(entries=[EntryInfo("Topic:*", ["Pub"], decision="Allow")])])
INNER = '{"accessKey":"inner","secretKey":"0123456789"}'


async def test_a_slave_has_the_users_of_its_master(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, inner_client_authentication_credentials=INNER).open()
    await pair.send(b"for users only")
    await pair.until_caught_up()
    assert len(await pair.bodies(SLAVE)) == 1
    made = await pair.ask(MASTER, CreateUser("root", body=UserInfo("root", "r00t", "Super")))
    assert made.code == 0
    await world.run_for(2_000)
    for name in (MASTER, SLAVE):
        assert (await pair.pull(name, 0)).remark == "username cannot be null."
        assert (await pair.ask(name, GetReplication())).remark == "username cannot be null."
    await pair.restart(SLAVE)
    assert (await pair.pull(SLAVE, 0)).remark == "username cannot be null.", "also without its master's help"
    root = ConnectionPool(world.machine("root", "10.0.0.8"), credentials=Credentials("root", "r00t"))
    assert (await root.ask(address_of(MASTER), CreateUser("shop", body=UserInfo("shop", "s3cret")))).code == 0
    await world.run_for(2_000)
    assert (await root.ask(address_of(SLAVE), GetUser("shop"))).body == UserInfo("shop", "s3cret", "Normal", "enable")
    await root.close()
    await pair.close()


async def test_a_snapshot_from_before_the_first_user_opens_the_slave_too(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, inner_client_authentication_credentials=INNER).open()
    await pair.send(b"for everybody")
    root = ConnectionPool(world.machine("root", "10.0.0.8"), credentials=Credentials("root", "r00t"))
    master = address_of(MASTER)
    assert (await pair.ask(MASTER, SaveSnapshot("before"))).code == 0
    assert (await pair.ask(MASTER, CreateUser("root", body=UserInfo("root", "r00t", "Super")))).code == 0
    assert (await root.ask(master, CreateAcl("User:root", body=ALLOWED))).code == 0
    await world.run_for(2_000)
    assert (await pair.pull(SLAVE, 0)).remark == "username cannot be null."
    assert (await root.ask(master, SaveSnapshot("after"))).code == 0
    assert (await pair.ask(MASTER, RestoreSnapshot("before"))).remark == "username cannot be null."
    assert (await root.ask(master, RestoreSnapshot("before"))).code == 0
    await world.run_for(2_000)
    assert len(await pair.bodies(MASTER)) == len(await pair.bodies(SLAVE)) == 1
    await pair.restart(SLAVE)
    await world.run_for(2_000)
    assert len(await pair.bodies(SLAVE)) == 1, "also after a restart"
    assert (await pair.ask(MASTER, RestoreSnapshot("after"))).code == 0
    await world.run_for(2_000)
    for name in (MASTER, SLAVE):
        assert (await pair.pull(name, 0)).remark == "username cannot be null."
    await root.close()
    await pair.close()


async def test_a_blank_that_is_larger_than_a_piece(world: SimulatedWorld, logged: list[LogLine]) -> None:
    """The slave has all of it when it has its head, but confirms only what it was sent: it needn't join again."""
    pair = await ReplicaSet(world, mapped_file_size_commit_log=4 * MIB).open()
    for number in range(6):
        assert (await pair.send(b"%d" % number * (3 * MIB // 2))).code == 0
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    assert [line for line in logged if line.event == "slave_refused"] == []
    await pair.close()


@pytest.mark.parametrize("lag_ms", [0, 100])
async def test_a_message_that_is_almost_as_large_as_a_frame(world: SimulatedWorld, lag_ms: int) -> None:
    pair = await ReplicaSet(world, mapped_file_size_commit_log=32 * MIB, max_message_size=14 * MIB).open()
    await pair.control(SLAVE, lag_ms=lag_ms)
    assert (await pair.send(b"x" * (13 * MIB))).code == 0
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_no_flipped_bit_of_a_piece_is_stored(world: SimulatedWorld) -> None:
    """Whatever it makes of the lengths in a record: it is nothing else than a StorageError, which the slave reports."""
    pair = await ReplicaSet(world).open(slaves=0)
    await pair.send(b"1")
    record = pair.log_of(MASTER)["0" * 20]
    await pair.start(SECOND, broker_role="ASYNC_MASTER", broker_id=0, namesrv_addr="")
    store = pair.brokers[SECOND].state.store
    for at, bit in itertools.product(range(len(record)), range(8)):
        damaged = bytearray(record)
        damaged[at] ^= 1 << bit
        with suppress(StorageError):
            assert store.copy_of_log().add(0, bytes(damaged)) == 0
    store.commit()
    assert store.max_position == 0
    assert store.copy_of_log().add(0, record) == len(record)
    await pair.close()
