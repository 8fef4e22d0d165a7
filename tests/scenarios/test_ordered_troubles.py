"""Brokers and connections that fail a group which consumes in order; and whatever may happen, by chance."""

from random import Random

import pytest

from staticfire.client import (
    MessageQueue,
    OrderedStatus,
)
from staticfire.client.admin.faults import FaultAdmin
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.requests.locks import MessageQueue as LockedQueue
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import in_both_protocols
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC
from tests.scenarios.ordering import SUCCESS, SUSPEND, Chances, Ordering, Turn, holder, own, taking

BOTH_PROTOCOLS = in_both_protocols("group")

pytestmark = pytest.mark.row("O2")


@BOTH_PROTOCOLS
@pytest.mark.row("O1")
async def test_a_broker_that_dies_and_comes_back(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 20))
    await group.start("two", taking(world, 20))
    await world.run_for(ms=300)
    await group.feed(100, queues=4, pause_ms=1)
    await group.until(40)
    for pause_ms in (300, 5_000, 40_000):
        world.kill("broker-a")
        await world.run_for(ms=pause_ms)
        await group.shop.start_broker("broker-a")
        await world.run_for(seconds=35)
        await group.feed(40, queues=4, pause_ms=1)
    await world.until(group.shop.is_committed, within_ms=120_000)
    for queue in range(4):
        heard = [turn.message.queue_offset for turn in group.turns if turn.context.queue.queue_id == queue]
        assert sorted(set(heard)) == list(range(25 + 3 * 10))
        assert len(heard) <= 55 + 3, "at most what was under way comes again"


@pytest.mark.row("O1")
async def test_a_member_that_is_cut_off_stops_before_its_locks_end(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 500))
    await group.feed(600, queues=4, pause_ms=0)
    await group.until(20)
    world.isolate("one")
    cut_ms = world.uptime_ms
    await world.run_for(seconds=58)
    heard = [turn for turn in group.turns if turn.who == "one"]
    assert 0 < max(turn.began_ms for turn in heard) - cut_ms <= 31_000
    second = await group.start("two", taking(world, 100))
    await world.run_for(seconds=70)
    count = len(group.bodies_of(0))
    world.heal("one")
    await world.until(lambda: len(own(first)) == len(own(second)) == 2, within_ms=60_000)
    await world.run_for(seconds=30)
    assert len(group.bodies_of(0)) >= count
    await world.until(group.shop.is_committed, within_ms=200_000)


@pytest.mark.row("O1")
async def test_a_frozen_member_finds_its_queue_taken_and_keeps_out(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 200))
    await group.feed(80, queues=4, pause_ms=0)
    await group.until(8)
    world.freeze("one")
    await world.run_for(ms=500)
    group.running.clear()
    second = await group.start("two", taking(world, 50))
    await world.run_for(seconds=180)
    assert own(second) == [0, 1, 2, 3]
    world.thaw("one")
    await world.until(lambda: len(own(first)) == len(own(second)) == 2, within_ms=60_000)
    await world.until(group.shop.is_committed, within_ms=60_000)
    await group.feed(40, queues=4, pause_ms=1)
    await world.until(group.shop.is_committed, within_ms=60_000)


@pytest.mark.row("O1")
async def test_a_lock_that_another_client_took_is_lost_at_once_and_the_queue_taken_again(
    world: SimulatedWorld, group: Ordering
) -> None:
    consumer = await group.start("one", taking(world, 1_000))
    await group.feed(30, queues=1, pause_ms=0)
    await group.until(3)
    broker = group.shop.brokers["broker-a"]
    locks, uptime_ms = broker.tables.groups.queue_locks, broker.state.machine.clock.uptime_ms
    queue = LockedQueue(TOPIC, "broker-a", 0)
    locks.unlock(GROUP, consumer.client.client_id, [queue])
    locks.lock(GROUP, "stranger", [queue], uptime_ms())
    await world.run_for(ms=22_000)
    assert 0 not in own(consumer)
    count = len(group.turns)
    await world.run_for(ms=20_000)
    assert len(group.turns) == count
    locks.unlock(GROUP, "stranger", [queue])
    await group.until(30)
    await world.until(group.shop.is_committed)
    assert MessageQueue(TOPIC, "broker-a", 0) in consumer.assignment


@pytest.mark.row("O1")
async def test_what_another_program_did_meanwhile_is_not_done_again(world: SimulatedWorld, group: Ordering) -> None:
    """The broker restarts and forgets the locks; before the owner is back, somebody consumes its queue further."""
    await group.start("one", taking(world, 1_000))
    await group.feed(10, queues=1, pause_ms=0)
    await group.until(2)
    world.partition("one", "broker-a")
    world.kill("broker-a")
    await group.shop.start_broker("broker-a")
    await world.run_for(ms=200)
    await group.shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 8)
    heard = len(group.bodies)
    world.heal("one", "broker-a")
    await world.run_for(seconds=40)
    assert group.bodies[heard:] == [b"8", b"9"]
    group.faults.clear()  # The watch doesn't know who consumed the others.


async def test_an_offset_beyond_the_end_is_corrected_and_the_queue_is_ones_own_again(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.shop.admin.create_group(GROUP)
    await group.shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 100)
    consumer = await group.start("one", offset_illegal_pause_ms=1_000)
    await world.run_for(ms=1_200)
    assert 0 in own(consumer)
    await group.shop.send(b"0", b"1", queue=0)
    await group.until(2)
    await world.until(lambda: group.shop.committed(0) == 2, within_ms=50)
    assert holder(group) == consumer.client.client_id


@pytest.mark.row("R8")
async def test_queues_of_a_topic_that_is_unsubscribed_are_unlocked(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one", taking(world, 1_000))
    await group.shop.send(b"0", b"1", queue=0)
    await group.until(1)
    consumer.unsubscribe(TOPIC)
    await world.run_for(ms=500)
    assert holder(group, 0) == consumer.client.client_id
    assert holder(group, 1) is None
    await world.run_for(ms=600)
    assert holder(group, 0) is None
    assert (group.bodies, group.shop.committed(0)) == ([b"0"], 1)


@pytest.mark.row("O1")
async def test_queues_that_a_member_cannot_begin_are_left_to_others(world: SimulatedWorld, group: Ordering) -> None:
    """It has locked them, and then its broker doesn't tell where the group stopped."""
    faults = FaultAdmin(group.shop.admin.client.pool, NAMESRV)
    await faults.add(parse_fault({"code": "QUERY_CONSUMER_OFFSET", "answer": "SYSTEM_ERROR"}))
    first = await group.start("one")
    await world.run_for(ms=300)
    assert own(first) == []
    await world.stop("one")
    await faults.remove(0)
    await group.feed(4, queues=4, pause_ms=0)
    await group.start("two")
    await group.until(4, within_ms=1_000)


async def test_a_suspended_consumer_keeps_its_locks(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one")
    consumer.suspend()
    await world.run_for(minutes=3)
    assert holder(group) == consumer.client.client_id
    await group.shop.send(b"0", queue=0)
    consumer.resume()
    await group.until(1, within_ms=100)


async def test_a_broker_that_answers_no_more_is_not_worked_for(world: SimulatedWorld, group: Ordering) -> None:
    """Frozen, it keeps its connections; nobody can renew a lock."""
    await group.start("one", taking(world, 100))
    await group.shop.send(*[b"%d" % number for number in range(600)], queue=0)
    await group.until(5)
    world.freeze("broker-a")
    frozen_ms = world.uptime_ms
    await world.run_for(seconds=55)
    last_ms = max(turn.began_ms for turn in group.turns)
    assert last_ms - frozen_ms <= 30_000
    world.thaw("broker-a")
    await world.until(group.shop.is_committed, within_ms=120_000)
    assert group.bodies == [b"%d" % number for number in range(600)]


async def test_a_jump_in_message_time_waits_for_suspended_queues(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        return SUSPEND if turn.message.reconsume_times < 3 else SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", b"1", queue=0)
    await group.shop.advance(hours=1)
    assert group.bodies == [b"0"] * 4 + [b"1"] * 4


@pytest.mark.parametrize("seed", first_and_slow(range(4)))
@pytest.mark.row("O1")
@pytest.mark.row("O4")
async def test_whatever_happens_to_members_and_broker_the_order_holds(
    world: SimulatedWorld, group: Ordering, seed: int
) -> None:
    await Chances(group, Random(seed)).play(rounds=25)
