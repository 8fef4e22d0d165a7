"""Message time when a broker starts after the clock was changed."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import Stand

pytestmark = pytest.mark.row("S1")

SECOND_MS = 1_000
IN_10_S, IN_2_MINUTES = ("DELAY\x013\x02", "DELAY\x016\x02")


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
    client = ConnectionPool(world.machine("client", "10.0.3.1"))
    pop = PopMessage("billing", "orders", -1, 32, 10 * SECOND_MS, 0, 0, 0)
    assert (await client.ask(stand.brokers["broker-b"], pop, 3_000)).code == 0
    await client.close()
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
