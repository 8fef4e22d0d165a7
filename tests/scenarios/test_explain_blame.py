"""Which member or broker is named as the cause: not another one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ConsumeFromWhere, MessageModel
from staticfire.client.explain.explainer import explain_group
from staticfire.client.explain.findings import ExplainFinding
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop, forever

pytestmark = pytest.mark.row("S4")

BROADCASTING: dict[str, Any] = {
    "message_model": MessageModel.BROADCASTING,
    "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
}


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, broker_settings={"journal_enable": True})
    yield await shop.open(brokers=1, queues=1)
    await shop.close()


async def causes(shop: Shop) -> list[ExplainFinding]:
    return (await explain_group(shop.admin, GROUP)).causes


async def started(shop: Shop) -> None:
    """Start a member on a machine called `one`, and let it consume a message."""
    await shop.start("one")
    await shop.send(b"x")
    await shop.world.run_for(seconds=31)


@pytest.mark.parametrize("is_stuck_first", [True, False])
async def test_the_broadcasting_member_that_is_stuck(world: SimulatedWorld, shop: Shop, is_stuck_first: bool) -> None:
    """Both get the same messages; which one gets them first doesn't matter."""
    well, stuck = shop.consumer("well", **BROADCASTING), shop.consumer("stuck", forever, **BROADCASTING)
    for consumer in (stuck, well) if is_stuck_first else (well, stuck):
        await world.start("stuck" if consumer is stuck else "well", consumer)
        await world.run_for(seconds=1)
    await shop.send(b"1", b"2", b"3")
    await world.run_for(seconds=30)
    (cause,) = await causes(shop)
    assert cause.kind == "STUCK_MESSAGE"
    assert stuck.client.client_id in cause.words
    assert cause.evidence == ["orders broker-a/0: 3 messages are at the member and not done"]


async def test_only_the_messages_of_the_slowest_broadcasting_member_are_counted(
    world: SimulatedWorld, shop: Shop
) -> None:
    for who in ("one", "two"):
        await shop.start(who, forever, **BROADCASTING)
    await shop.send(b"1", b"2", b"3")
    await world.run_for(seconds=30)
    (cause,) = await causes(shop)
    assert cause.evidence == ["orders broker-a/0: 3 messages are at the member and not done"]


async def test_a_broker_that_a_member_does_not_know_yet_is_not_unreachable(world: SimulatedWorld, shop: Shop) -> None:
    await started(shop)
    await shop.start_broker("broker-b", "10.0.1.2")
    await world.run_for(seconds=2)
    await shop.admin.create_topic(TOPIC, queues=1)
    await world.run_for(seconds=6)
    (cause,) = await causes(shop)
    assert cause.kind == "BROKER_NOT_FOUND_YET"
    assert "not to broker-b (10.0.1.2:10911) yet" in cause.words
    await world.run_for(seconds=65)
    assert await causes(shop) == []


async def start_apart(world: SimulatedWorld, shop: Shop) -> None:
    """Start a broker that the member can't reach."""
    await started(shop)
    await shop.start_broker("broker-b", "10.0.1.2")
    world.partition("one", "broker-b")


async def test_a_broker_that_just_got_a_topic_may_not_be_known_yet(world: SimulatedWorld, shop: Shop) -> None:
    """Staticfire's members connect to the broker for their retries; others don't, which a partition stands for."""
    await start_apart(world, shop)
    await world.run_for(minutes=5)
    await shop.admin.create_topic(TOPIC, queues=1)
    await world.run_for(seconds=6)
    assert [one.kind for one in await causes(shop)] == ["BROKER_NOT_FOUND_YET"]
    await world.run_for(seconds=65)
    assert [one.kind for one in await causes(shop)] == ["UNREACHABLE_BROKER"]


async def test_a_broker_that_stays_away_from_a_member_is_unreachable(world: SimulatedWorld, shop: Shop) -> None:
    await start_apart(world, shop)
    await world.run_for(seconds=2)
    await shop.admin.create_topic(TOPIC, queues=1)
    await world.run_for(seconds=70)
    assert [one.kind for one in await causes(shop)] == ["UNREACHABLE_BROKER"]
