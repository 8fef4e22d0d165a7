"""Whether a group began after the messages: only if a broker noted that it began, and only about those before it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import MessageQueue
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.requests.reset import Reset
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop

pytestmark = pytest.mark.row("S4")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, broker_settings={"journal_enable": True})
    yield await shop.open(brokers=1, queues=1)
    await shop.close()


async def found(shop: Shop) -> dict[str, str]:
    """Return what explain finds: the words by kind."""
    return {one.kind: one.words for one in (await explain_group(shop.admin, GROUP)).findings}


async def test_a_group_with_offsets_is_not_new_after_its_broker_was_restarted(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one")
    await shop.send(*[b"x"] * 10)
    await shop.until_heard(10)
    await world.run_for(seconds=10)
    world.kill("broker-a")
    await world.run_for(seconds=1)
    await shop.start_broker("broker-a", "10.0.1.1")
    await world.run_for(seconds=40)
    assert await found(shop) == {}


async def test_a_group_whose_filter_matched_nothing_did_not_begin_after_the_messages(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.start("one", expression="paid")
    await shop.send(b"1", b"2", tags="open")
    await world.run_for(seconds=10)
    assert list(await found(shop)) == ["FILTER_MATCHES_NOTHING"]


async def test_a_group_whose_offsets_were_copied_or_set_is_not_new(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"x"] * 6)
    await shop.admin.create_group(GROUP)
    await shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 6)
    await shop.start("one")
    await world.run_for(seconds=10)
    assert await found(shop) == {}


async def test_only_the_messages_before_the_beginning_are_counted(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"1", b"2", b"3", tags="paid")
    await shop.start("one", expression="paid", skip_young_history=True)
    await world.run_for(seconds=10)
    await shop.send(b"4", b"5", tags="open")
    await world.run_for(seconds=10)
    assert "began after the 3 messages that orders had" in (await found(shop))["BEGAN_AT_THE_END"]


async def test_a_group_that_has_got_newer_messages_does_not_miss_the_earlier_ones(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(b"1")
    await shop.start("one", skip_young_history=True)
    await world.run_for(seconds=10)
    assert list(await found(shop)) == ["BEGAN_AT_THE_END"]
    await shop.send(b"2")
    await world.run_for(seconds=10)
    assert await found(shop) == {}


async def test_a_group_that_begins_again_after_a_reset_of_the_cluster_is_found_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    async with shop.consumer("one", skip_young_history=True):
        await shop.send(b"1")
        await shop.until_heard(1)
    answer = await shop.producer.client.pool.ask("10.0.1.1:10911", Reset())
    assert answer.code == 0, answer.remark
    await shop.admin.create_topic(TOPIC, queues=1)
    await shop.send(b"2", b"3")
    await shop.start("two", skip_young_history=True)
    await world.run_for(seconds=10)
    assert list(await found(shop)) == ["BEGAN_AT_THE_END"]
