"""A group that consumes in order, undisturbed: each queue by one member, each message in its turn, and once."""

import pytest

from staticfire.client import (
    ConsumeFromWhere,
    MessageModel,
    OrderedContext,
    OrderedStatus,
)
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols
from tests.scenarios.consuming import GROUP, TOPIC, Messages
from tests.scenarios.ordering import SUCCESS, Ordering, holder, taking

BOTH_PROTOCOLS = in_both_protocols("group")

pytestmark = pytest.mark.row("O2")


@BOTH_PROTOCOLS
async def test_each_queue_is_heard_in_order_and_once(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 3))
    await group.feed(100, queues=4, pause_ms=1)
    await group.until(100)
    for queue in range(4):
        assert group.bodies_of(queue) == [b"%d" % number for number in range(25)]
    await world.run_for(ms=50)
    assert group.shop.is_committed()
    assert not any(turn.message.reconsume_times for turn in group.turns)


async def test_queues_are_worked_on_side_by_side(world: SimulatedWorld, group: Ordering) -> None:
    await group.feed(8, queues=4, pause_ms=0)
    await group.start("one", taking(world, 1_000), consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await group.until(8)
    begun = [turn.began_ms for turn in group.turns]
    assert max(begun[:4]) - min(begun[:4]) < 100
    assert 900 < begun[4] - begun[0] < 1_100


async def test_no_more_listeners_run_at_once_than_there_are_threads(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one", taking(world, 1_000), consume_threads=2)
    await group.feed(8, queues=4, pause_ms=0)
    await world.run_for(ms=500)
    assert len(group.turns) == 2
    consumer.update_consume_threads(4)
    await world.run_for(ms=200)
    assert len(group.turns) == 4
    consumer.update_consume_threads(1)
    await group.until(8)
    assert len({turn.began_ms for turn in group.turns[4:]}) >= 3


async def test_a_busy_queue_gives_way_after_a_while(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 1_000), consume_threads=1, max_time_consume_continuously_ms=3_500)
    await group.feed(12, queues=2, pause_ms=0)
    await group.until(12)
    assert [turn.context.queue.queue_id for turn in group.turns[:8]] == [0, 0, 0, 0, 1, 1, 1, 1]


async def test_batches_are_as_large_as_the_settings_say(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 1_000), consume_message_batch_max_size=4)
    await group.feed(10, queues=1, pause_ms=0)
    await group.until(10)
    assert [len(turn.messages) for turn in group.turns] == [1, 4, 4, 1]
    await world.run_for(ms=1_050)
    assert group.shop.committed(0) == 10


@pytest.mark.row("P2")
async def test_a_full_cache_is_pulled_again_when_there_is_room(world: SimulatedWorld, group: Ordering) -> None:
    settings = {"pull_threshold_for_queue": 10, "pull_batch_size": 4}
    consumer = await group.start("one", taking(world, 10), **settings)
    await group.shop.send(*[b"%d" % number for number in range(60)], queue=1)
    most = 0

    def follow() -> bool:
        nonlocal most
        most = max(most, *consumer.cached.values())
        return len(group.bodies) == 60

    await world.until(follow)
    assert most <= 10 + 4
    assert group.bodies == [b"%d" % number for number in range(60)]


@pytest.mark.row("O1")
async def test_broadcasting_needs_no_locks(world: SimulatedWorld, group: Ordering) -> None:
    for who in ("one", "two"):
        consumer = group.consumer(who, message_model=MessageModel.BROADCASTING)
        heard: list[bytes] = []

        @consumer.ordered_listener
        async def listen(messages: Messages, _: OrderedContext, heard: list[bytes] = heard) -> OrderedStatus:
            heard += [message.body for message in messages]
            return SUCCESS

        await world.start(who, consumer)
        assert len(consumer.assignment) == 4
        await group.shop.send(b"a", b"b", b"c", queue=0)
        await world.until(lambda heard=heard: heard == [b"a", b"b", b"c"])  # type: ignore[misc]
    assert holder(group) is None


@pytest.mark.row("O2")
@pytest.mark.parametrize("is_illegal", [False, True], ids=["moves itself", "illegal offset"])
async def test_a_broadcasting_queue_that_is_taken_again_waits_for_its_running_call(
    world: SimulatedWorld, group: Ordering, is_illegal: bool
) -> None:
    consumer = group.consumer("one", taking(world, 20_000), message_model=MessageModel.BROADCASTING)
    await world.start("one", consumer)
    await group.shop.send(b"0", b"1", queue=0)
    await group.until(1)
    if is_illegal:
        address = (await group.shop.admin.masters())["broker-a"]
        reset = ResetOffset(GROUP, TOPIC, -1, queue_id=0, offset=0)
        assert (await group.shop.producer.client.pool.ask(address, reset)).code == 0
    else:
        await consumer.reset_offset_by_time(0)
    await group.until(3)
    assert group.bodies == [b"0", b"0", b"1"]
    assert group.turns[1].began_ms >= group.turns[0].began_ms + 20_000


async def test_a_plain_function_is_called_in_order_too(world: SimulatedWorld, group: Ordering) -> None:
    consumer = group.consumer("one")
    heard: list[bytes] = []

    @consumer.ordered_listener
    def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        heard.append(messages[0].body)
        if messages[0].body == b"50" and messages[0].reconsume_times == 0:
            raise ValueError("out of luck")
        return SUCCESS

    await world.start("one", consumer)
    bodies = [b"%d" % number for number in range(100)]
    await group.shop.send(*bodies, queue=2)
    await world.until(lambda: len(heard) == 101)
    assert heard == [*bodies[:51], b"50", *bodies[51:]]
    await world.until(lambda: group.shop.committed(2) == 100, within_ms=50)
