"""What a broker does that nobody has asked for stands in its journal, once."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ConsumeFromWhere
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Shop


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings={"journal_enable": True})
    yield await shop.open(queues=1)
    await shop.close()


async def noted(shop: Shop, *kinds: str) -> list[tuple[str, str, str, int]]:
    return [(one.kind, one.group, one.topic, one.queue_offset) for one in await shop.admin.journal(*kinds)]


@BOTH_PROTOCOLS
async def test_a_topic_that_a_send_has_created_is_reported_once(shop: Shop) -> None:
    await shop.send(b"1", b"2", topic="ordrs")
    await shop.send(b"3", topic=TOPIC)
    assert await noted(shop, "topicMade") == [("topicMade", "", "ordrs", -1)]
    (record,) = await shop.admin.journal("topicMade")
    assert record.details == {"queues": 4}


async def test_a_group_that_its_first_member_has_created_is_reported_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_group("known")
    for who, group in (("one", GROUP), ("two", GROUP), ("three", "known")):
        await shop.start(who, group=group)
    await world.run_for(seconds=30)
    assert await noted(shop, "groupMade") == [("groupMade", GROUP, "", -1)]


async def test_from_the_last_offset_on_a_young_queue_means_from_its_first(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"before the group")
    await shop.start("one", consume_from_where=ConsumeFromWhere.LAST_OFFSET)
    await world.run_for(seconds=60)
    began = [one for one in await shop.admin.journal("began") if one.topic == TOPIC]
    assert [(one.group, one.queue_id, one.queue_offset) for one in began] == [(GROUP, 0, 0)]
    assert began[0].details == {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
    assert shop.bodies == [b"before the group"]


async def test_who_stands_somewhere_begins_nowhere(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"1")
    await world.run_for(seconds=30)
    there = len(await shop.admin.journal("began"))
    await shop.start("two")
    await world.run_for(seconds=60)
    assert len(await shop.admin.journal("began")) == there
