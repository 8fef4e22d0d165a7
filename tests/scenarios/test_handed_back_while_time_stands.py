"""What is handed back is redelivered at once, although message time is frozen."""

from typing import Any

import pytest

from staticfire.client import ConsumeFromWhere
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Shop, forever, taking
from tests.scenarios.receiving import simple

pytestmark = [pytest.mark.row("G4"), pytest.mark.row("S1")]


@BOTH_PROTOCOLS
async def test_a_message_without_invisible_time(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"a")
    async with simple(shop, "one") as one:
        await shop.clock("freeze")
        for times in range(4):
            [message] = await one.receive(invisible_ms=0, await_ms=8_000)
            assert (message.body, message.reconsume_times) == (b"a", times)


@BOTH_PROTOCOLS
async def test_a_message_that_is_made_visible(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"a")
    async with simple(shop, "one") as one:
        await shop.clock("freeze")
        [message] = await one.receive(invisible_ms=30_000, await_ms=8_000)
        for times in range(1, 4):
            await one.change_invisible(message, 0)
            [message] = await one.receive(invisible_ms=30_000, await_ms=8_000)
            assert message.reconsume_times == times
        assert await one.receive(await_ms=8_000) == [], "what keeps its invisible time isn't redelivered"


@BOTH_PROTOCOLS
async def test_one_that_is_put_off_and_then_made_visible(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"a")
    async with simple(shop, "one") as one:
        await shop.clock("freeze")
        [message] = await one.receive(invisible_ms=30_000, await_ms=8_000)
        await one.change_invisible(message, 60_000)
        await one.change_invisible(message, 0)
        [message] = await one.receive(await_ms=8_000)
        assert message.reconsume_times == 1


async def leave_after(shop: Shop, ms: int) -> None:
    """Let a popping member leave with messages in hand, and look whether another one has them soon."""
    settings: dict[str, Any] = {"client_rebalance": False, "consume_from_where": ConsumeFromWhere.FIRST_OFFSET}
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP", 0)
    await shop.clock("freeze")
    await shop.start(
        "one", forever, consume_threads=1, await_termination_ms=100, pop_invisible_time_ms=60_000, **settings
    )
    bodies = await shop.send_many(20)
    await shop.until_heard(1)
    await shop.world.run_for(ms)
    shop.heard.clear()
    await shop.world.stop("one")
    await shop.start("two", **settings)
    await shop.world.run_for(seconds=30)
    assert len(set(shop.bodies)) >= len(bodies) - 1


@BOTH_PROTOCOLS
async def test_a_popping_member_that_leaves(shop: Shop) -> None:
    await leave_after(shop, 1_000)


async def test_a_popping_member_that_leaves_when_the_time_would_be_over(shop: Shop) -> None:
    """Not with RocketMQ's brokers: they would redeliver twice what is put back after its time."""
    await leave_after(shop, 100_000)


async def test_messages_that_waited_too_long_for_their_listener(world: SimulatedWorld, shop: Shop) -> None:
    """A member skips them, since another one could have them by now; nobody has while time is frozen."""
    await shop.admin.set_consume_mode(TOPIC, GROUP, "POP", 0)
    await shop.clock("freeze")
    bodies = await shop.send_many(20)
    await shop.start(
        "one", taking(world, 9_000), consume_threads=1, pop_invisible_time_ms=60_000, client_rebalance=False,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    )  # fmt: skip
    await world.run_for(minutes=10)
    assert set(shop.bodies) == set(bodies)
