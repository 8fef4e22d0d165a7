"""Tags that change while a consumer runs: whatever is wanted after the change is heard, whoever hears of it first.

A pull that left with one subscription may be answered by a broker that has the next one already, or the other way
round. Either answer has been filtered by something else than what the consumer wants now.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import cast

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeContext, Message, OrderedContext, OrderedStatus, PushConsumer
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.cases import first_and_slow
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Heard, Messages, Shop

BROKERS = ("broker-a", "broker-b")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    yield await shop.open(brokers=2, queues=2)
    await shop.close()


def in_order(shop: Shop, consumer: PushConsumer) -> PushConsumer:
    """Let a consumer listen in order instead; what it hears is noted as before."""

    @consumer.ordered_listener
    async def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        shop.heard.append(Heard("one", messages, cast(ConsumeContext, context), shop.world.uptime_ms))
        return OrderedStatus.SUCCESS

    return consumer


async def start(world: SimulatedWorld, shop: Shop, expression: str, is_ordered: bool = False) -> PushConsumer:
    consumer = shop.consumer("one", expression=expression)
    started = await world.start("one", in_order(shop, consumer) if is_ordered else consumer)
    await world.run_for(ms=200)  # Its pulls are held.
    return started


async def send_everywhere(shop: Shop, body: bytes, tags: str) -> None:
    """Send one message to each queue of each broker."""
    await shop.producer.send_many([Message(TOPIC, body, tags=tags) for _ in range(4)])


@BOTH_PROTOCOLS
@pytest.mark.row("P6")
@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
@pytest.mark.parametrize("wanted", ["b", "a || b", "*"])
async def test_the_first_messages_with_a_new_tag_are_heard(
    world: SimulatedWorld, shop: Shop, wanted: str, is_ordered: bool
) -> None:
    consumer = await start(world, shop, "a", is_ordered)
    consumer.subscribe(TOPIC, wanted)
    await send_everywhere(shop, b"new", "b")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=1_000)
    await world.until(shop.is_committed, within_ms=1_000)


@BOTH_PROTOCOLS
@pytest.mark.row("P6")
async def test_what_a_held_pull_has_passed_over_is_heard_when_it_is_wanted(world: SimulatedWorld, shop: Shop) -> None:
    """It was stored just before the change, and the pull that passed over it may be held for 15 s more."""
    consumer = await start(world, shop, "a")
    await send_everywhere(shop, b"new", "b")
    await world.run_for(ms=100)
    consumer.subscribe(TOPIC, "a || b")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=500)
    await world.run_for(seconds=20)
    assert shop.bodies == [b"new"] * 4


async def test_a_tag_that_is_wanted_no_more_is_not_heard(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await start(world, shop, "a || b")
    consumer.subscribe(TOPIC, "a")
    await send_everywhere(shop, b"old", "b")
    await send_everywhere(shop, b"kept", "a")
    await world.run_for(seconds=20)
    assert shop.bodies == [b"kept"] * 4


async def test_a_subscription_that_the_broker_has_not_heard_of_costs_nothing(world: SimulatedWorld, shop: Shop) -> None:
    """The heartbeat is lost with its connection: refused pulls show that it is missing."""
    consumer = await start(world, shop, "a")
    world.isolate("one")
    consumer.subscribe(TOPIC, "b")
    await send_everywhere(shop, b"new", "b")
    await world.run_for(seconds=5)
    world.heal("one")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=60_000)


async def test_changes_within_a_millisecond_are_changes(world: SimulatedWorld, shop: Shop) -> None:
    """Brokers take a subscription with a higher version, and versions are times."""
    consumer = await start(world, shop, "a")
    consumer.subscribe(TOPIC, "b")
    consumer.subscribe(TOPIC, "c")
    await send_everywhere(shop, b"new", "c")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=1_000)


async def test_a_wall_clock_that_is_put_back_changes_nothing(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await start(world, shop, "a")
    world.skew("one", -3_600_000)
    consumer.subscribe(TOPIC, "b")
    await send_everywhere(shop, b"new", "b")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=1_000)


@pytest.mark.parametrize("pause_ms", [0, 1, 50, 5_000])
async def test_who_subscribes_again_hears_what_comes_then(world: SimulatedWorld, shop: Shop, pause_ms: int) -> None:
    consumer = await start(world, shop, "a")
    consumer.unsubscribe(TOPIC)
    if pause_ms:
        await world.run_for(ms=pause_ms)
    consumer.subscribe(TOPIC, "b")
    await world.run_for(ms=50 if pause_ms else 0)
    await send_everywhere(shop, b"new", "b")
    await world.until(lambda: shop.bodies == [b"new"] * 4, within_ms=10_000)


async def test_nothing_is_heard_of_a_topic_that_was_left(world: SimulatedWorld, shop: Shop) -> None:
    """An answer that was on its way is not consumed, and not counted: it is there for who subscribes again."""
    consumer = await start(world, shop, "a")
    for broker in BROKERS:
        world.set_link("one", broker, LinkQuality(delay_ms=100))
    await send_everywhere(shop, b"late", "a")
    consumer.unsubscribe(TOPIC)
    await world.run_for(seconds=5)
    assert shop.bodies == []
    consumer.subscribe(TOPIC, "a")
    await world.until(lambda: shop.bodies == [b"late"] * 4, within_ms=10_000)


@pytest.mark.parametrize("seed", first_and_slow(range(12), 3))
async def test_whatever_the_order_of_events_what_is_wanted_in_the_end_is_heard(
    world: SimulatedWorld, shop: Shop, seed: int
) -> None:
    random = Random(seed)
    consumer = await start(world, shop, "a")
    for broker in BROKERS:
        world.set_link("one", broker, LinkQuality(delay_ms=random.choice([0.1, 5, 40])))

    async def busy(done: Callable[[], bool]) -> None:
        while not done():
            await send_everywhere(shop, b"before", random.choice("abc"))
            await world.run_for(ms=random.choice([1, 7, 60]))

    is_over = False
    sending = asyncio.create_task(busy(lambda: is_over))
    for _ in range(8):
        consumer.subscribe(TOPIC, random.choice(["a", "b", "a || b", "c", "*"]))
        if random.random() < 0.2:
            consumer.unsubscribe(TOPIC)
        await world.run_for(ms=random.choice([0.5, 3, 30, 400]))
    consumer.subscribe(TOPIC, "b || c")
    is_over = True
    for number in range(20):
        await send_everywhere(shop, b"%d" % number, random.choice("bc"))
        await world.run_for(ms=random.choice([0.5, 5, 40]))
    await sending
    await world.until(lambda: {b"%d" % number for number in range(20)} <= set(shop.bodies), within_ms=60_000)
    await world.run_for(seconds=1)
    for number in range(20):
        assert shop.bodies.count(b"%d" % number) == 4, number
