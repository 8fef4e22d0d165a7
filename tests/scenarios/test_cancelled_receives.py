"""A `receive` that is cancelled keeps no message from anybody."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from staticfire.client import Message, SimpleConsumer
from staticfire.simulation.world import SimulatedWorld
from tests.cases import spread
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.receiving import simple

pytestmark = pytest.mark.row("G4")


async def cancelled(receiving: "asyncio.Future[Any]") -> None:
    receiving.cancel()
    with suppress(asyncio.CancelledError):
        await receiving


@BOTH_PROTOCOLS
@pytest.mark.parametrize("topics", [("single",), (TOPIC, "single")], ids=["held", "notified"])
async def test_the_next_message_goes_to_another_member(
    world: SimulatedWorld, shop: Shop, topics: tuple[str, ...]
) -> None:
    await shop.admin.create_topic("single", queues=1, broker_name="broker-a")
    async with simple(shop, "one", *topics) as one, simple(shop, "two", *topics) as two:
        await world.run_for(seconds=1)
        receiving = asyncio.ensure_future(one.receive(invisible_ms=30_000, await_ms=15_000))
        await world.run_for(seconds=1)
        await cancelled(receiving)
        await shop.producer.send(Message("single", b"a"))
        [received] = await two.receive(await_ms=2_000)
        assert received.body == b"a"
        await two.ack(received)


@BOTH_PROTOCOLS
async def test_a_program_that_receives_again_and_again_gets_it_the_first_time(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.admin.create_topic("single", queues=1, broker_name="broker-a")
    async with simple(shop, "one", "single") as one:
        for _ in range(15):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await one.receive(await_ms=15_000)
        sending = asyncio.ensure_future(shop.producer.send(Message("single", b"a")))
        [received] = await one.receive(await_ms=15_000)
        await sending
        assert (received.body, received.reconsume_times) == (b"a", 0)
        await one.ack(received)


@pytest.mark.parametrize("after", spread(range(40), 4))
async def test_a_cancel_at_each_moment_around_the_answer(world: SimulatedWorld, shop: Shop, after: int) -> None:
    await shop.admin.create_topic("single", queues=1, broker_name="broker-a")
    async with simple(shop, "one", "single") as one, simple(shop, "two", "single") as two:
        await one.receive(await_ms=1)
        receiving = asyncio.ensure_future(one.receive(invisible_ms=30_000, await_ms=15_000))
        sending = asyncio.ensure_future(shop.producer.send(Message("single", b"a")))
        for _ in range(after):
            await asyncio.sleep(0)
        await world.run_for(after % 8 / 4)
        receiving.cancel()
        outcome = (await asyncio.gather(receiving, return_exceptions=True))[0]
        await sending
        if isinstance(outcome, BaseException):
            [received] = await two.receive(await_ms=2_000)
            assert received.body == b"a"
        else:
            assert [one.body for one in outcome] == [b"a"]


@pytest.mark.parametrize("after_ms", [0, 10, 3_000])
async def test_a_consumer_that_left_with_a_shared_client(world: SimulatedWorld, shop: Shop, after_ms: int) -> None:
    await shop.admin.create_topic("single", queues=1, broker_name="broker-a")
    one = SimpleConsumer("billing", client=shop.producer.client)
    one.subscribe("single")
    async with one, simple(shop, "two", "single") as two:
        await two.receive(await_ms=1)
        receiving = asyncio.ensure_future(one.receive(invisible_ms=30_000, await_ms=15_000))
        await world.run_for(seconds=1)
        await cancelled(receiving)
        await one.__aexit__()
        await world.run_for(after_ms)
        await shop.producer.send(Message("single", b"a"))
        [received] = await two.receive(await_ms=2_000)
        assert received.body == b"a"
