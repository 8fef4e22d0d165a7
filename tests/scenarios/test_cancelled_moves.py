"""Calls that move queues and are cancelled, or overtaken by the end of the consumer: no queue and no lock is stuck."""

import asyncio
from contextlib import suppress

import pytest

from staticfire.client import ConsumeFromWhere, LitePullConsumer, Message, MessageQueue, PushConsumer
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.cases import spread
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.ordering import Ordering
from tests.scenarios.polling import lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET
BOTH = [MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-b", 0)]
SLOW = LinkQuality(delay_ms=20)


async def send_to_both(shop: Shop, *bodies: bytes) -> None:
    for queue, body in zip(BOTH, bodies, strict=True):
        await shop.producer.send(Message(TOPIC, body), queue=queue)


async def give_away_in_vain(world: SimulatedWorld, shop: Shop, consumer: LitePullConsumer) -> None:
    """Let a consumer of both queues give them away, and cancel that: a frozen broker doesn't take the offset."""
    await consumer.assign(BOTH)
    await send_to_both(shop, b"a0", b"b0")
    assert sorted(await poll_all(consumer, 2)) == [b"a0", b"b0"]
    await consumer.poll(0)
    world.freeze("broker-b")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.assign([]), 1)


@BOTH_PROTOCOLS
@pytest.mark.row("P9")
async def test_queues_can_be_assigned_again_after_a_cancelled_assignment(world: SimulatedWorld, shop: Shop) -> None:
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await give_away_in_vain(world, shop, consumer)
        world.thaw("broker-b")
        await world.run_for(seconds=1)
        assert (shop.committed(), shop.committed(broker="broker-b")) == (1, 1)
        await consumer.assign(BOTH)
        await send_to_both(shop, b"a1", b"b1")
        assert sorted(await poll_all(consumer, 2)) == [b"a1", b"b1"]


@pytest.mark.row("P9")
async def test_queues_are_taken_that_are_assigned_again_while_they_leave(world: SimulatedWorld, shop: Shop) -> None:
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await give_away_in_vain(world, shop, consumer)
        await consumer.assign(BOTH)
        world.thaw("broker-b")
        await send_to_both(shop, b"a1", b"b1")
        assert sorted(await poll_all(consumer, 2)) == [b"a1", b"b1"]


@pytest.mark.row("C11")
@pytest.mark.parametrize("after_ms", spread(range(0, 120, 5), 6))
async def test_all_queues_are_consumed_after_a_cancelled_reset(
    world: SimulatedWorld, shop: Shop, after_ms: int
) -> None:
    consumer = await shop.start("one")
    await shop.send(*[b"%d" % number for number in range(8)])
    await shop.until_heard(8)
    for broker in shop.brokers:
        world.set_link("one", broker, SLOW)
    with suppress(TimeoutError):
        await asyncio.wait_for(consumer.reset_offset_by_time(0), after_ms / 1000)
    await world.run_for(seconds=30)
    shop.heard.clear()
    bodies = []
    for broker in shop.brokers:
        for number in range(4):
            bodies.append(b"%s/%d" % (broker.encode(), number))
            await shop.producer.send(Message(TOPIC, bodies[-1]), queue=MessageQueue(TOPIC, broker, number))
    await shop.until_heard(8)
    assert sorted(shop.bodies) == bodies


# -- locks -------------------------------------------------------------------------------------------------------------


def of_single(group: Ordering, who: str) -> PushConsumer:
    """Return a consumer of a topic with one queue, not started."""
    consumer = group.consumer(who)
    consumer.unsubscribe(TOPIC)
    consumer.subscribe("single")
    return consumer


def locked(group: Ordering) -> list[str]:
    """Return the queues that are locked, according to their broker."""
    broker = group.shop.brokers["broker-a"]
    locks = broker.tables.groups.queue_locks.of_group(GROUP, broker.state.machine.clock.uptime_ms())
    return [str(queue) for queue, _ in locks]


@pytest.mark.row("O1")
@pytest.mark.parametrize("after_ms", spread(range(0, 160, 4), 8))
async def test_a_member_that_leaves_while_it_requests_a_lock_keeps_none(
    world: SimulatedWorld, group: Ordering, after_ms: int
) -> None:
    await group.shop.admin.create_topic("single", queues=1)
    members = {who: await world.start(who, of_single(group, who)) for who in ("one", "two")}
    await world.run_for(ms=500)
    [owner] = [who for who, member in members.items() if any(queue.topic == "single" for queue in member.assignment)]
    [other] = members.keys() - {owner}
    world.set_link(other, "broker-a", SLOW)
    await world.stop(owner)
    await world.run_for(ms=after_ms)
    await world.stop(other)
    assert locked(group) == []


@pytest.mark.row("O1")
@pytest.mark.parametrize("after_ms", spread(range(0, 400, 10), 8))
async def test_a_member_whose_start_is_cancelled_keeps_no_lock(
    world: SimulatedWorld, group: Ordering, after_ms: int
) -> None:
    consumer = group.consumer("one")
    world.set_link("one", "broker-a", SLOW)
    with suppress(TimeoutError):
        await asyncio.wait_for(consumer.__aenter__(), after_ms / 1000)
        await consumer.__aexit__()
    assert locked(group) == []
