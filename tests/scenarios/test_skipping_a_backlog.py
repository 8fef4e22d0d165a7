"""Three ways past a backlog: the listener passes it by, an administrator moves the group, a member moves itself."""

import pytest

from staticfire.client import ConsumeFromWhere, ConsumeStatus, OrderedContext, OrderedStatus
from staticfire.protocol.errors import ClientError, TopicNotFound
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Messages, Shop, taking

FIRST = ConsumeFromWhere.FIRST_OFFSET

pytestmark = pytest.mark.row("C11")


def message_ms(shop: Shop) -> int:
    return shop.brokers["broker-a"].state.clock.message_ms()


@BOTH_PROTOCOLS
async def test_a_listener_sees_how_far_behind_and_how_old_a_message_is(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(50)], queue=0)
    await world.run_for(seconds=60)
    await shop.send(b"new", queue=0)
    now_ms, worked_on = message_ms(shop), []

    async def pass_by(heard: Heard) -> ConsumeStatus:
        behind = heard.context.max_offset - heard.message.queue_offset
        if behind <= 10 and now_ms - heard.message.stored_ms < 30_000:
            worked_on.append(heard.message.body)
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", pass_by, consume_from_where=FIRST)
    await shop.until_heard(51)
    assert worked_on == [b"new"]
    assert {heard.context.max_offset for heard in shop.heard} == {51}


async def test_an_ordered_listener_sees_it_as_well(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"0", b"1", queue=0)
    consumer, seen = shop.consumer("one", consume_from_where=FIRST), []

    @consumer.ordered_listener
    def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        seen.append(context.max_offset - messages[0].queue_offset)
        return OrderedStatus.SUCCESS

    await world.start("one", consumer)
    await world.until(lambda: seen == [2, 1])


@BOTH_PROTOCOLS
@pytest.mark.parametrize("is_online", [False, True], ids=["before-its-start", "while-it-runs"])
async def test_an_administrator_moves_a_group_to_a_time(world: SimulatedWorld, shop: Shop, is_online: bool) -> None:
    await shop.start("one", consume_from_where=FIRST)
    await shop.until_heard(0)
    if not is_online:
        await world.stop("one")
    old = await shop.send_many(40)
    await shop.until_heard(40 if is_online else 0)
    await world.run_for(seconds=20)
    since_ms = message_ms(shop)
    await world.run_for(seconds=20)
    new = [b"new %d" % number for number in range(16)]
    await shop.send(*new)
    await shop.until_heard(56 if is_online else 0)
    shop.heard.clear()
    moved = await shop.admin.reset_offset_by_time(GROUP, TOPIC, since_ms)
    assert set(moved.values()) == {5}
    assert len(moved) == 8
    if not is_online:
        await shop.start("one")
    await shop.until_heard(16)
    await world.run_for(seconds=30)
    assert sorted(shop.bodies) == sorted(new)
    assert shop.is_committed()
    assert not set(old) & set(shop.bodies)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("is_ordered", [False, True], ids=["any-order", "in-order"])
async def test_a_member_that_starts_after_a_reset_consumes_at_once(
    world: SimulatedWorld, shop: Shop, is_ordered: bool
) -> None:
    """It begins where the group was reset to, so there is nothing to correct."""
    await shop.start("one", consume_from_where=FIRST)
    bodies = await shop.send_many(16)
    await shop.until_heard(16)
    await world.stop("one")
    shop.heard.clear()
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, 0)
    consumer, heard = shop.consumer("two"), list[bytes]()
    if is_ordered:

        @consumer.ordered_listener
        def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
            heard.extend(message.body for message in messages)
            return OrderedStatus.SUCCESS

    await world.start("two", consumer)
    await world.until(lambda: len(heard if is_ordered else shop.bodies) == 16, within_ms=1_000)
    await world.run_for(seconds=30)
    assert sorted(heard if is_ordered else shop.bodies) == sorted(bodies)
    assert shop.is_committed()
    await shop.send(b"next", queue=0)
    await world.until(lambda: b"next" in (heard if is_ordered else shop.bodies), within_ms=1_000)
    await world.until(shop.is_committed, within_ms=2_000)


async def test_an_administrator_skips_the_whole_backlog(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", taking(world, 1_000), consume_from_where=FIRST, consume_threads=1)
    await shop.send_many(400)
    await shop.until_heard(3)
    await shop.admin.reset_offset_by_time(GROUP, TOPIC, -1)
    await world.run_for(seconds=5)
    heard = len(shop.heard)
    await shop.send(b"next", queue=0)
    await shop.until_heard(heard + 1)
    await world.run_for(seconds=30)
    assert shop.bodies[heard:] == [b"next"]
    with pytest.raises(TopicNotFound):
        await shop.admin.reset_offset_by_time(GROUP, "unknown", -1)


@BOTH_PROTOCOLS
async def test_a_member_moves_itself(world: SimulatedWorld, shop: Shop) -> None:
    consumer = shop.consumer("one", taking(world, 1_000), consume_from_where=FIRST, consume_threads=1)
    with pytest.raises(ClientError, match="isn't running"):
        await consumer.reset_offset_by_time(0)
    await world.start("one", consumer)
    await shop.send_many(400)
    await world.run_for(seconds=3)
    await consumer.reset_offset_by_time(message_ms(shop))
    await world.run_for(seconds=3)
    heard = len(shop.heard)
    await shop.send(b"next", queue=0)
    await shop.until_heard(heard + 1)
    assert shop.bodies[heard:] == [b"next"]
    await world.until(shop.is_committed, within_ms=2_000)
