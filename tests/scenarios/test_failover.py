"""A slave takes over from its master; the old master becomes its slave."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.errors import BrokerAnswer, ClientError, UsageError
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.requests.brokers import GetMemberGroup
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.replication import ChangeRole
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with ten messages."""
    pair = ReplicaSet(world, **getattr(request, "param", {}))
    await pair.open()
    await pair.fill(messages=10)
    yield pair
    await pair.close()


async def members(pair: ReplicaSet) -> dict[int, str]:
    answer = await pair.pool.ask(NAMESRV, GetMemberGroup("DefaultCluster", MASTER))
    group = answer.body.broker_member_group
    return dict(group.broker_addrs)


async def test_nothing_is_lost_while_both_answer(pair: ReplicaSet) -> None:
    done = await pair.failover()
    assert (done.master, done.lost, done.epoch) == (address_of(SLAVE), 0, 2)
    assert (await pair.send(b"after", SLAVE)).code == 0
    await pair.until_caught_up(MASTER, SLAVE)
    assert await members(pair) == {0: address_of(SLAVE), 1: address_of(MASTER)}
    expected = [b"%d" % number for number in range(10)] + [b"after"]
    assert await pair.bodies(SLAVE) == await pair.bodies(MASTER) == expected
    pair.assert_equal(SLAVE, MASTER)


async def test_there_and_back_again(pair: ReplicaSet) -> None:
    names = [SLAVE, MASTER]
    for round_ in range(4):
        await pair.failover(losing=1 if round_ % 2 else None)
        new, old = names
        assert (await pair.send(b"round %d" % round_, new)).code == 0
        await pair.until_caught_up(old, new)
        pair.assert_equal(MASTER, SLAVE)
        names.reverse()
    assert (await pair.bodies(MASTER))[-2:] == [b"round 2", b"round 3"] or len(await pair.bodies(MASTER)) == 12


async def test_the_last_messages_are_lost_on_request(pair: ReplicaSet) -> None:
    done = await pair.failover(losing=3)
    assert done.lost == 3
    assert await pair.bodies(SLAVE) == [b"%d" % number for number in range(7)]
    await pair.send(b"new", SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    assert (await pair.bodies(MASTER))[7:] == [b"new"]
    pair.assert_equal(SLAVE, MASTER)


async def test_losing_counts_messages_and_no_notes_of_the_broker(pair: ReplicaSet) -> None:
    """A commit is a record, too: counted as one, two messages would be one and the commit."""
    half = await pair.send(b"half", TRAN_MSG="true", PGROUP="producers")
    at = parse_offset_id(half.msg_id)[1]
    assert (await pair.ask(MASTER, EndTransaction("producers", half.queue_offset, at, 8))).code == 0
    await pair.send(b"last")
    await pair.until_caught_up()
    done = await pair.failover(losing=2)
    assert done.lost == 2
    assert await pair.bodies(SLAVE) == [b"%d" % number for number in range(10)]  # The half message is open again.


async def test_a_slave_that_lacks_messages_is_refused_and_the_master_continues(pair: ReplicaSet) -> None:
    await pair.control(SLAVE, hold=True)
    for number in range(4):
        await pair.send(b"more %d" % number)
    with pytest.raises(ClientError, match=r"broker-a-1 is 4 messages behind .* held: .*release broker-a-1.*--losing 4"):
        await pair.failover()
    with pytest.raises(ClientError, match="4 messages behind"):
        await pair.failover(losing=3)
    assert (await pair.send(b"still the master")).code == 0
    done = await pair.failover(losing=5)
    assert done.lost == 5
    assert len(await pair.bodies(SLAVE)) == 10


async def test_a_killed_master_is_replaced_and_follows_when_it_is_back(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.control(SLAVE, hold=True)
    for number in range(3):
        assert (await pair.send(b"lost %d" % number)).code == 0  # acknowledged, and nowhere else
    world.kill(MASTER)
    await world.run_for(100)
    with pytest.raises(ClientError, match="behind its master"):
        await pair.failover()
    done = await pair.failover(losing=3)
    assert (done.lost, done.old_master) == (-1, "")
    assert (await pair.send(b"new", SLAVE)).code == 0
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    assert await members(pair) == {0: address_of(SLAVE), 1: address_of(MASTER)}
    assert (await pair.bodies(MASTER))[10:] == [b"new"]
    pair.assert_equal(SLAVE, MASTER)


async def test_a_frozen_master_learns_that_it_was_replaced(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.freeze(MASTER)
    done = await pair.failover()
    assert done.master == address_of(SLAVE)
    assert (await pair.send(b"new", SLAVE)).code == 0
    world.thaw(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    assert (await members(pair))[0] == address_of(SLAVE)
    pair.assert_equal(SLAVE, MASTER)


@pytest.mark.parametrize("name", [MASTER, SLAVE])
async def test_roles_survive_a_restart(pair: ReplicaSet, name: str) -> None:
    await pair.failover()
    await pair.until_caught_up(MASTER, SLAVE)
    await pair.restart(name)
    await pair.until_caught_up(MASTER, SLAVE)
    assert (await pair.state(SLAVE)).role == "ASYNC_MASTER"
    assert (await pair.state(MASTER)).role == "SLAVE"
    assert (await pair.send(b"after", SLAVE)).code == 0


async def test_the_other_slave_follows_the_new_master(world: SimulatedWorld) -> None:
    trio = await ReplicaSet(world).open(slaves=2)
    for number in range(5):
        await trio.send(b"%d" % number)
    await trio.until_caught_up(SLAVE)
    await trio.until_caught_up(SECOND)
    await trio.failover(to=2, losing=2)
    await trio.send(b"new", SECOND)
    await trio.until_caught_up(SLAVE, SECOND)
    await trio.until_caught_up(MASTER, SECOND)
    trio.assert_equal(MASTER, SLAVE, SECOND)
    assert await trio.bodies(SLAVE) == [b"0", b"1", b"2", b"new"]
    await trio.close()


async def test_delayed_messages_are_delivered_once_by_the_new_master(pair: ReplicaSet, world: SimulatedWorld) -> None:
    for number in range(3):
        await pair.send(b"delayed %d" % number, DELAY="2")  # 5 s
    await world.run_for(seconds=1)
    await pair.failover()
    await world.run_for(seconds=10)
    assert (await pair.bodies(SLAVE))[10:] == [b"delayed 0", b"delayed 1", b"delayed 2"]
    await pair.until_caught_up(MASTER, SLAVE)
    await pair.failover()
    await world.run_for(seconds=30)
    assert len(await pair.bodies(MASTER)) == 13


async def test_offsets_are_those_of_the_old_master(pair: ReplicaSet) -> None:
    await pair.pull(MASTER, 0)
    assert (await pair.ask(MASTER, UpdateConsumerOffset("billing", "orders", 0, 6))).code == 0
    await pair.failover()
    assert (await pair.ask(SLAVE, QueryConsumerOffset("billing", "orders", 0))).offset == 6


async def test_no_acknowledged_message_of_a_synchronous_set_is_lost(world: SimulatedWorld) -> None:
    """Whichever machine is lost, with its disk: one of the two copies that a send waited for remains."""
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2).open(slaves=2)
    acknowledged: list[bytes] = []

    async def produce() -> None:
        for number in range(500):
            body = b"%d" % number
            if (await trio.send(body)).code == 0:
                acknowledged.append(body)

    producing = asyncio.ensure_future(produce())
    await world.run_for(150)
    world.kill(MASTER)
    await world.run_for(100)
    producing.cancel()
    await asyncio.gather(producing, return_exceptions=True)
    assert len(acknowledged) > 20
    done = await trio.failover(losing=1)
    new = SLAVE if done.master == address_of(SLAVE) else SECOND
    bodies = await trio.bodies(new)
    assert bodies[: len(acknowledged)] == acknowledged
    assert (await trio.state(new)).role == "SYNC_MASTER"
    await trio.close()


async def test_the_slave_with_the_acknowledged_messages_is_elected(world: SimulatedWorld) -> None:
    """Not the one that joined the master of a newer epoch, but never copied what was stored before it."""
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2).open(slaves=2)
    await trio.control(SECOND, lag_ms=60_000)
    for number in range(20):
        assert (await trio.send(b"%d" % number)).code == 0
    world.kill(MASTER)
    await world.run_for(100)
    assert (await trio.failover()).master == address_of(SLAVE)
    await world.run_for(seconds=2)
    assert [epoch.epoch for epoch in (await trio.state(SECOND)).epochs] == [1, 2]
    assert trio.end(SECOND) == 0
    # The old master is back, but has not joined the new one yet, when that is lost.
    world.kill(SLAVE)
    await trio.start(MASTER)
    await trio.ask(MASTER, ChangeRole("SLAVE", 1, 1))
    assert (await trio.failover(losing=0)).master == address_of(MASTER)
    assert await trio.bodies(MASTER) == [b"%d" % number for number in range(20)]
    await trio.close()


async def test_a_master_that_cannot_hand_over_on_a_full_disk_continues_with_its_offsets(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    for number in range(5):
        await pair.send(b"%d" % number)
    await pair.until_caught_up()
    await pair.pull(MASTER, 0, "billing")
    assert (await pair.ask(MASTER, UpdateConsumerOffset("billing", "orders", 0, 2))).code == 0
    await world.run_for(seconds=6)
    world.disk(MASTER).bytes_left = 0
    assert (await pair.ask(MASTER, UpdateConsumerOffset("billing", "orders", 0, 4))).code == 0
    with pytest.raises(BrokerAnswer, match="No space left"):
        await pair.failover()
    assert (await pair.ask(MASTER, QueryConsumerOffset("billing", "orders", 0))).offset == 4
    world.disk(MASTER).bytes_left = None
    await world.run_for(seconds=60)
    await pair.kill_and_start(MASTER)
    assert (await pair.ask(MASTER, QueryConsumerOffset("billing", "orders", 0))).offset == 4
    await pair.close()


async def test_a_master_that_gave_way_takes_over_again_in_a_newer_epoch(world: SimulatedWorld) -> None:
    """Also if it has not joined its successor yet: both would be masters in one epoch, and neither would give way."""
    pair = await ReplicaSet(world).open()
    assert (await pair.send(b"before")).code == 0
    await pair.until_caught_up()
    world.freeze(MASTER)
    assert (await pair.failover()).epoch == 2
    world.thaw(MASTER)
    while (await pair.state(MASTER)).role != "SLAVE":
        await world.run_for(1)
    world.partition(MASTER, SLAVE)
    world.freeze(SLAVE)
    await world.run_for(seconds=1)
    assert [epoch.epoch for epoch in (await pair.state(MASTER)).epochs] == [1]
    assert (await pair.failover(losing=1)).epoch == 3
    world.heal(MASTER, SLAVE)
    world.thaw(SLAVE)
    await pair.until_caught_up(SLAVE, MASTER)
    assert (await pair.state(SLAVE)).role == "SLAVE"
    await pair.close()


async def test_a_master_that_thaws_acknowledges_nothing_that_the_new_one_lacks(world: SimulatedWorld) -> None:
    """The other slave followed it until then, and would have been the second copy."""
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=500).open(slaves=2)
    assert (await trio.send(b"before")).code == 0
    await trio.until_caught_up()
    world.freeze(MASTER)
    failover = asyncio.ensure_future(trio.failover(to=1))
    while (await trio.state(SLAVE)).role == "SLAVE":
        await world.run_for(5)
    world.thaw(MASTER)
    late = await trio.send(b"late")
    assert late.code != 0
    await failover
    began_ms = world.uptime_ms
    assert (await trio.send(b"after", SLAVE)).code == 0
    assert world.uptime_ms - began_ms < 1_000
    await trio.until_caught_up(MASTER, SLAVE)
    await trio.until_caught_up(SECOND, SLAVE)
    trio.assert_equal(MASTER, SLAVE, SECOND)
    assert await trio.bodies(SLAVE) == [b"before", b"after"]
    await trio.close()


async def test_no_slave_follows_a_master_that_comes_back_during_the_failover(world: SimulatedWorld) -> None:
    """It registers after the new one, and has the route for a moment."""
    trio = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=500).open(slaves=2)
    assert (await trio.send(b"before")).code == 0
    await trio.until_caught_up()
    world.kill(MASTER)
    await world.run_for(100)
    failover = asyncio.ensure_future(trio.failover(to=1))
    starting = asyncio.ensure_future(trio.start(MASTER))
    await asyncio.gather(failover, starting)
    for _ in range(20):
        assert (await trio.send(b"to the old one")).code != 0
        await world.run_for(50)
    await trio.until_caught_up(MASTER, SLAVE, within_ms=5_000)
    await trio.until_caught_up(SECOND, SLAVE, within_ms=5_000)
    assert (await members(trio))[0] == address_of(SLAVE)
    trio.assert_equal(MASTER, SLAVE, SECOND)
    await trio.close()


async def test_the_new_master_takes_the_route_back(pair: ReplicaSet, world: SimulatedWorld) -> None:
    world.freeze(MASTER)
    await pair.failover()
    world.thaw(MASTER)
    world.partition(MASTER, SLAVE)  # So it can't find out at once that it was replaced.
    pair.brokers[MASTER]._core.registration.lost(NAMESRV)  # house: as when its nameserver restarts at this moment
    await world.run_for(20)
    world.heal(MASTER, SLAVE)
    assert (await members(pair))[0] == address_of(MASTER)
    await pair.until_caught_up(MASTER, SLAVE, within_ms=5_000)
    assert await members(pair) == {0: address_of(SLAVE), 1: address_of(MASTER)}


async def test_no_epoch_is_given_twice(world: SimulatedWorld) -> None:
    """The second failover learns of the first one only from a slave that has not joined its master yet."""
    trio = await ReplicaSet(world).open(slaves=2)
    await trio.control(SECOND, hold=True)
    await trio.send(b"1")
    await trio.until_caught_up()
    world.kill(MASTER)
    await world.run_for(100)
    assert (await trio.failover(to=1)).epoch == 2
    world.kill(SLAVE)
    await world.run_for(100)
    assert (await trio.failover(to=2, losing=1)).epoch == 3
    await trio.close()


async def test_an_epoch_that_a_master_has_promised_is_for_one_slave_only(world: SimulatedWorld) -> None:
    """Otherwise a failover that began before the slave had taken over made another broker a master of that epoch."""
    trio = await ReplicaSet(world).open(slaves=2)
    assert (await trio.ask(MASTER, ChangeRole("SLAVE", 1, 2))).code == 0
    assert (await trio.state(MASTER)).least_epoch == 2
    for request in (ChangeRole("", 0, 2), ChangeRole("SLAVE", 2, 2)):
        answer = await trio.ask(MASTER, request)
        assert answer.code != 0
        assert "epoch 2 isn't newer than epoch 2" in answer.remark
    assert (await trio.ask(SLAVE, ChangeRole("", 0, 2))).code == 0
    assert (await trio.ask(SECOND, ChangeRole("", 0, 3))).code == 0
    await trio.until_caught_up(MASTER, SECOND, within_ms=5_000)
    await trio.close()


@pytest.mark.parametrize("settings", [{}, {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}])
async def test_a_master_that_comes_back_with_an_empty_disk_is_a_slave(
    world: SimulatedWorld, settings: dict[str, object]
) -> None:
    """It must not take the place of the one that took over: it has no message, and the other slave none of its log."""
    trio = await ReplicaSet(world, **settings).open(slaves=2)
    for number in range(20):
        assert (await trio.send(b"%d" % number)).code == 0
    await trio.until_caught_up()
    world.kill(MASTER)
    await world.run_for(500)
    assert (await trio.failover()).master == address_of(SLAVE)
    world.machine(MASTER).files.remove_folder("/store")
    await trio.start(MASTER)
    await trio.until_caught_up(MASTER, SLAVE)
    await trio.until_caught_up(SECOND, SLAVE)
    assert await members(trio) == {0: address_of(SLAVE), 1: address_of(MASTER), 2: address_of(SECOND)}
    trio.assert_equal(MASTER, SLAVE, SECOND)
    assert len(await trio.bodies(MASTER)) == 20
    await trio.close()


@pytest.mark.parametrize(
    ("to", "losing", "error", "words"),
    [
        (7, None, ClientError, "broker-a has no slave with id 7; the ids of its slaves are 1"),
        (None, -1, UsageError, "can't be below 0"),
        (None, 2**63, UsageError, "can't be above 9223372036854775807"),
    ],
)
async def test_what_cannot_be(
    pair: ReplicaSet, to: int | None, losing: int | None, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await pair.failover(to, losing)


async def test_a_failover_of_a_broker_without_slaves_is_refused(world: SimulatedWorld) -> None:
    alone = await ReplicaSet(world).open(slaves=0)
    with pytest.raises(ClientError, match="broker-a has no slave: start the cluster with --replicas 1"):
        await alone.failover()
    with pytest.raises(ClientError, match="there is no broker broker-z; there are broker-a"):
        await alone.admin.failover("broker-z")
    await alone.close()
