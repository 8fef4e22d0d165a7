"""Message time when a broker starts after the clock was changed, and when a nameserver ends while it moves it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import BareConsumer, Stand

pytestmark = pytest.mark.row("S1")

SECOND_MS, HOUR_MS = 1_000, 3_600_000
IN_10_S, IN_A_MINUTE, IN_2_MINUTES = ("DELAY\x013\x02", "DELAY\x015\x02", "DELAY\x016\x02")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = Stand(world, brokers=2)
    await stand.start_nameserver()
    await stand.start_broker("broker-a")
    await stand.create_topic("orders")
    yield stand
    await stand.close()


async def bodies(stand: Stand, broker: str = "broker-a") -> list[bytes]:
    pull = PullMessage("readers", "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
    answer = await stand.ask(stand.brokers[broker], pull)
    return [record.body for record in answer.body.records] if answer.code == 0 else []


# -- brokers that start ----------------------------------------------------------------------------------------------


async def test_a_new_broker_doesnt_move_a_frozen_clock(world: SimulatedWorld, stand: Stand) -> None:
    frozen = await stand.clock("freeze")
    await stand.send("orders", b"later", properties=IN_2_MINUTES)
    await world.run_for(minutes=10)
    await stand.start_broker("broker-b")
    advanced = await stand.clock("advance", by_ms=SECOND_MS)
    assert (advanced.delivered, advanced.message_ms - frozen.message_ms) == (0, SECOND_MS)
    assert await bodies(stand) == []


async def test_nothing_is_due_at_a_broker_that_starts_after_the_clock_was_frozen(
    world: SimulatedWorld, stand: Stand
) -> None:
    """It knows a running clock from its last process, which delivers and redelivers nothing before it registers."""
    await stand.start_broker("broker-b")
    await stand.create_topic("orders", broker="broker-b")
    await stand.clock("run")
    await stand.send("orders", b"popped", broker="broker-b")
    await (await stand.pop("orders", 10 * SECOND_MS, "broker-b")).close()
    await stand.send("orders", b"later", properties=IN_10_S, broker="broker-b")
    await world.stop("broker-b")
    frozen = await stand.clock("freeze")
    await world.run_for(minutes=10)
    await stand.start_broker("broker-b")
    await world.run_for(seconds=5)
    assert await bodies(stand, "broker-b") == [b"popped"]
    advanced = await stand.clock("advance", by_ms=SECOND_MS)
    assert (advanced.delivered, advanced.expired) == (0, 0)
    assert advanced.message_ms - frozen.message_ms == SECOND_MS
    advanced = await stand.clock("advance", by_ms=10 * SECOND_MS)
    assert (advanced.delivered, advanced.expired) == (1, 1)
    assert await bodies(stand, "broker-b") == [b"popped", b"later"]


async def test_message_time_doesnt_go_back_behind_a_message_that_is_stored_before_the_registration(
    world: SimulatedWorld, stand: Stand
) -> None:
    """Clients know the address of a broker that restarts, and needn't wait for its registration."""
    await stand.start_broker("broker-b")
    await stand.create_topic("orders", broker="broker-b")
    await world.stop("broker-b")
    await stand.clock("freeze")
    await world.run_for(minutes=10)
    world.freeze("nameserver")
    starting = world.loop.create_task(stand.start_broker("broker-b"))
    await world.run_for(ms=500)
    await stand.send("orders", b"early", broker="broker-b")
    stored_ms = stand.services["broker-b"].state.store.last_stored_ms
    world.thaw("nameserver")
    await starting
    clock = stand.services["broker-b"].state.clock
    assert (clock.stands, clock.message_ms()) == (True, stored_ms)
    await stand.send("orders", b"next", broker="broker-b")
    assert await bodies(stand, "broker-b") == [b"early", b"next"]


async def test_a_broker_delivers_although_no_nameserver_responds(world: SimulatedWorld, stand: Stand) -> None:
    await stand.send("orders", b"later", properties=IN_10_S)
    await world.stop("broker-a")
    await world.stop("nameserver")
    await world.run_for(minutes=1)
    starting = world.loop.create_task(stand.start_broker("broker-a"))
    await world.run_for(seconds=4)
    assert await bodies(stand) == [b"later"]
    await stand.start_nameserver()
    await starting


# -- a nameserver that ends while it moves the clock -----------------------------------------------------------------


@asynccontextmanager
async def advancing(stand: Stand, settle_ms_max: int = 60_000) -> "AsyncIterator[asyncio.Task[Any]]":
    """Begin an advance that waits for a group that reads one of two queues, with a message in the other."""
    if "broker-b" not in stand.services:
        await stand.start_broker("broker-b")
    for broker in stand.brokers:
        await stand.create_topic("work", queues=2, broker=broker)
    consumer = await BareConsumer(stand, "billing", {"work": 1}, lambda _: True).start()
    await stand.send("work", queue_id=1)
    await stand.send("orders", b"later", properties=IN_A_MINUTE)
    advance = stand.world.loop.create_task(stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=settle_ms_max))
    await stand.world.run_for(seconds=1)
    try:
        yield advance
    finally:
        await consumer.stop()
        await asyncio.gather(advance, return_exceptions=True)


ENDS = pytest.mark.parametrize("how", ["stopped", "killed"])
MODES = pytest.mark.parametrize(
    ("action", "rate", "mode", "wait_ms"),
    [("run", None, "real", 60_000), ("scale", 60.0, "scaled", 1_200), ("skip", None, "skipping", 60_000)],
)


async def end_nameserver(world: SimulatedWorld, how: str) -> None:
    if how == "stopped":
        await world.stop("nameserver")
    else:
        world.kill("nameserver")


@ENDS
@MODES
async def test_time_continues_after_a_nameserver_has_ended_during_an_advance(
    world: SimulatedWorld, stand: Stand, how: str, action: str, rate: float | None, mode: str, wait_ms: int
) -> None:
    await stand.clock(action, rate=rate)
    async with advancing(stand) as advance:
        during = await stand.clock("now")
        assert (during.mode, during.rate) == ("frozen", 0.0)
        await end_nameserver(world, how)
        await asyncio.gather(advance, return_exceptions=True)
        await stand.start_nameserver()
        await world.run_for(seconds=2)
        after = await stand.clock("now")
        assert (after.mode, after.rate) == (mode, rate or 1.0)
        await world.run_for(ms=wait_ms)
        assert await bodies(stand) == [b"later"]
        times = [broker.state.clock.message_ms() for broker in stand.services.values()]
        assert max(times) - min(times) <= 10 * (rate or 1.0)


@ENDS
async def test_a_frozen_clock_stays_frozen_after_a_nameserver_has_ended_during_an_advance(
    world: SimulatedWorld, stand: Stand, how: str
) -> None:
    frozen = await stand.clock("freeze")
    async with advancing(stand) as advance:
        await end_nameserver(world, how)
        await asyncio.gather(advance, return_exceptions=True)
        await stand.start_nameserver()
        await world.run_for(minutes=10)
        after = await stand.clock("now")
        assert (after.mode, after.message_ms) == ("frozen", frozen.message_ms)
        assert await bodies(stand) == []


async def test_time_continues_while_the_nameserver_that_moved_it_is_away(world: SimulatedWorld, stand: Stand) -> None:
    await stand.clock("scale", rate=60.0)
    async with advancing(stand) as advance:
        world.kill("nameserver")
        await asyncio.gather(advance, return_exceptions=True)
        await world.run_for(seconds=2)
        assert await bodies(stand) == [b"later"]


async def test_a_broker_that_restarts_while_the_nameserver_is_away_has_the_pace_from_before_the_move(
    world: SimulatedWorld, stand: Stand
) -> None:
    await stand.clock("run")
    async with advancing(stand) as advance:
        world.kill("broker-a")
        world.kill("nameserver")
        await asyncio.gather(advance, return_exceptions=True)
        starting = world.loop.create_task(stand.start_broker("broker-a"))
        await world.run_for(seconds=62)
        assert await bodies(stand) == [b"later"]
        await stand.start_nameserver()
        await starting


async def test_a_broker_that_couldnt_reach_the_nameserver_during_an_advance_stops_its_time_again(
    world: SimulatedWorld, stand: Stand
) -> None:
    """It continued alone, and both have the same setting of the clock."""
    async with advancing(stand, settle_ms_max=120_000):
        clock = stand.services["broker-a"].state.clock
        world.partition("broker-a", "nameserver")
        await world.until(lambda: not clock.stands, 90_000)
        world.heal("broker-a", "nameserver")
        await world.run_for(seconds=5)
        assert clock.stands
        before_ms = clock.message_ms()
        await world.run_for(seconds=5)
        assert clock.message_ms() == before_ms
