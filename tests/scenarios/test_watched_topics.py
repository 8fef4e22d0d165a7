"""A program hears when the queues of a topic change."""

import pytest

from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.polling import lite_pull

pytestmark = pytest.mark.row("P9")


async def test_a_topic_reports_when_its_queues_have_changed(world: SimulatedWorld, shop: Shop) -> None:
    reported: list[int] = []
    async with lite_pull(shop, "one") as consumer:
        await consumer.on_topic_queues_changed(TOPIC, lambda topic, queues: reported.append(len(queues)))
        await world.run_for(seconds=40)
        assert reported == []
        await shop.admin.create_topic(TOPIC, queues=6)
        await world.run_for(seconds=40)
        assert reported == [12]
        await shop.admin.create_topic(TOPIC, queues=4)
        await world.run_for(seconds=40)
        assert reported == [12, 8]


async def test_a_topic_tells_when_it_comes_to_be(world: SimulatedWorld, shop: Shop) -> None:
    reported: list[int] = []
    async with lite_pull(shop, "one") as consumer:
        await consumer.on_topic_queues_changed("refunds", lambda topic, queues: reported.append(len(queues)))
        await world.run_for(seconds=40)
        await shop.admin.create_topic("refunds", queues=2)
        await world.run_for(seconds=40)
        assert reported == [4]
        await shop.admin.create_topic("refunds", queues=3)
        await world.run_for(seconds=40)
        assert reported == [4, 6]
