"""Members of a group that consumes in order: they join, leave, hang and die, and each queue is one member's."""

import asyncio

import pytest

from staticfire.client import (
    OrderedStatus,
)
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols
from tests.scenarios.ordering import SUCCESS, Ordering, Turn, forever, holder, own, taking

BOTH_PROTOCOLS = in_both_protocols("group")

pytestmark = pytest.mark.row("O2")


@BOTH_PROTOCOLS
@pytest.mark.row("O1")
@pytest.mark.row("R4")
@pytest.mark.row("R6")
async def test_members_that_join_and_leave_keep_the_order_and_repeat_nothing(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.start("one", taking(world, 30))
    feeding = asyncio.create_task(group.feed(400, queues=4, pause_ms=10))
    for _ in range(2):
        await world.run_for(ms=700)
        await group.start("two", taking(world, 45))
        await world.run_for(ms=700)
        await group.start("three", taking(world, 20))
        await world.run_for(ms=500)
        await world.stop("two")
        await world.run_for(ms=300)
        await world.stop("three")
    await feeding
    await group.until(400)
    for queue in range(4):
        assert group.bodies_of(queue) == [b"%d" % number for number in range(100)]
    assert {turn.who for turn in group.turns} == {"one", "two", "three"}
    await world.run_for(seconds=1)
    assert len(group.bodies) == 400
    assert group.shop.is_committed()


@pytest.mark.row("O1")
@pytest.mark.row("R4")
async def test_a_queue_is_given_away_when_its_listener_is_over(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 90_000))
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(4)
    second = await group.start("two", taking(world, 100))
    await world.run_for(ms=500)
    assert own(second) == []
    await world.run_for(seconds=85)
    assert own(second) == [], "a lock is renewed as long as a listener runs"
    await group.until(8, within_ms=10_000)
    over_ms = group.turns[0].began_ms + 90_000
    assert {turn.began_ms - over_ms < 150 for turn in group.turns[4:]} == {True}
    assert len(own(first)) == len(own(second)) == 2
    await world.run_for(ms=200)
    assert group.shop.committed(own(second)[0]) == 2


@pytest.mark.row("O1")
async def test_a_queue_changes_hands_within_a_moment(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one")
    second = await group.start("two")
    await world.run_for(ms=200)
    assert sorted(own(first) + own(second)) == [0, 1, 2, 3]
    await world.stop("one")
    await world.run_for(ms=150)
    assert own(second) == [0, 1, 2, 3]
    assert len({holder(group, queue) for queue in range(4)}) == 1


@pytest.mark.row("O1")
async def test_a_broker_that_notifies_no_client_is_queried_again_soon(world: SimulatedWorld, group: Ordering) -> None:
    """What RocketMQ's brokers do: they don't say that a queue was unlocked."""
    broker = group.shop.brokers["broker-a"]
    await group.start("one", taking(world, 5_000))
    await group.feed(4, queues=4, pause_ms=0)
    await group.until(4)
    second = await group.start("two")
    await world.run_for(ms=300)
    state = broker.tables.groups.queue_locks
    real = state.unlock
    state.unlock = lambda *reported: real(*reported) and []  # type: ignore[method-assign]
    await world.until(lambda: len(own(second)) == 2, within_ms=5_300)
    assert world.uptime_ms - group.turns[0].began_ms < 5_000 + 400


@pytest.mark.row("O1")
async def test_the_locks_of_a_killed_member_last_their_minute(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", forever)
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(4)
    killed_ms = world.uptime_ms
    group.kill("one")
    second = await group.start("two")
    await world.run_for(seconds=35)
    assert own(second) == []
    await group.until(12)
    assert 38_000 < world.uptime_ms - killed_ms < 61_500
    for queue in range(4):
        assert group.bodies_of(queue) == [b"0", b"0", b"1"]


@pytest.mark.row("O1")
async def test_locks_are_given_back_at_the_end_after_the_last_call(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 3_000))
    await group.feed(4, queues=1, pause_ms=0)
    await group.until(1)
    began_ms = world.uptime_ms
    stopping = asyncio.create_task(world.stop("one"))
    await world.run_for(ms=2_500)
    assert holder(group) is not None
    await stopping
    assert 2_900 < world.uptime_ms - began_ms < 3_300
    assert holder(group) is None
    assert (group.bodies, group.shop.committed(0)) == ([b"0"], 1)


@pytest.mark.row("O1")
async def test_a_coroutine_that_hangs_is_cancelled_at_the_end_and_its_queue_is_free(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.start("one", forever)
    await group.feed(4, queues=1, pause_ms=0)
    await group.until(1)
    await world.stop("one")
    assert holder(group) is None
    await group.start("two")
    await group.until(5)
    assert group.bodies == [b"0", b"0", b"1", b"2", b"3"]


async def test_a_hanging_listener_keeps_its_queue_and_no_other(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        return await forever(turn) if turn.context.queue.queue_id == 3 else SUCCESS

    await group.start("one", react)
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(7)
    second = await group.start("two", react)
    await world.run_for(minutes=5)
    assert len(group.bodies) == 7
    assert 3 not in own(second)
    assert len(own(second)) == 1
    assert holder(group, 3) != holder(group, own(second)[0])
