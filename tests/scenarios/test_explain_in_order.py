"""What is said about messages that were popped in order: their queue gives no others meanwhile."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import SimpleConsumer, SimpleSettings
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.requests.pop import ChangeInvisibleTime, PopMessage
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

pytestmark = pytest.mark.row("S4")

BROKER = "10.0.1.1:10911"
INVISIBLE_MS = 600_000


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, broker_settings={"journal_enable": True})
    yield await shop.open(brokers=1, queues=1)
    await shop.close()


async def pop_in_order(shop: Shop, count: int) -> Any:
    request = PopMessage(GROUP, TOPIC, 0, count, INVISIBLE_MS, 0, 0, 0, order=True)
    return await shop.admin.client.pool.ask(BROKER, request)


async def test_the_queue_waits_for_what_was_popped_in_order(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"x"] * 4)
    await pop_in_order(shop, 2)
    await world.run_for(seconds=20)
    found = await explain_group(shop.admin, GROUP)
    assert found.headline == "billing: 0 members, 4 messages behind in orders, 2 of them popped and not acknowledged"
    [popped] = [one for one in found.findings if one.kind == "POPPED"]
    assert popped.words.startswith("2 messages popped and not acknowledged, at ")
    assert "in order: 2 messages after them must wait" in popped.evidence[0]
    assert "staticfire clock advance 9m39s" in popped.way_out
    assert popped.is_cause


async def test_a_group_has_in_flight_what_was_popped_in_order(shop: Shop) -> None:
    await shop.send(*[b"x"] * 4)
    await pop_in_order(shop, 3)
    [progress] = (await shop.admin.group(GROUP)).progress
    assert (progress.committed, progress.inflight, progress.lag) == (0, 3, 4)


async def test_a_message_with_a_time_of_its_own_is_popped_until_then(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"x"] * 2)
    answer = await pop_in_order(shop, 2)
    handle = f"0 {answer.pop_time} {answer.invisible_time} {answer.revive_qid} 0 broker-a 0 1"
    await shop.admin.client.pool.ask(BROKER, ChangeInvisibleTime(GROUP, TOPIC, 0, handle, 1, INVISIBLE_MS * 2))
    found = await explain_group(shop.admin, GROUP)
    [popped] = [one for one in found.findings if one.kind == "POPPED"]
    assert "staticfire clock advance 19m59s" in popped.way_out
    await shop.advance(hours=1)
    assert "POPPED" not in [one.kind for one in (await explain_group(shop.admin, GROUP)).findings]


async def test_a_blocked_queue_has_nothing_that_a_member_should_request(world: SimulatedWorld, shop: Shop) -> None:
    machine = world.machine("taker", host="10.0.4.2")
    taker = SimpleConsumer(GROUP, NAMESRV, SimpleSettings(client=shop.settings), machine)
    taker.subscribe(TOPIC)
    await world.start("taker", taker)
    await shop.send(*[b"x"] * 4)
    await pop_in_order(shop, 2)
    await world.run_for(seconds=60)
    assert [one.kind for one in (await explain_group(shop.admin, GROUP)).findings] == ["POPPED"]
