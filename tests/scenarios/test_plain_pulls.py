"""The plain pull consumer, beside what tests/client/test_pull.py has of it."""

import pytest

from staticfire.client import ClusterClient, PullConsumer
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop
from tests.scenarios.polling import QUEUE

pytestmark = pytest.mark.row("P9")


@BOTH_PROTOCOLS
async def test_what_was_pulled_can_be_sent_back_to_the_groups_retries(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one", topic=None)
    client = ClusterClient(NAMESRV, shop.settings, world.machine("reader", host="10.0.5.1"))
    async with client, PullConsumer(GROUP, client=client) as puller:
        assert await puller.earliest_stored_ms(QUEUE) is None
        await shop.send(b"bad", queue=0)
        [message] = (await puller.pull(QUEUE, 0)).messages
        assert await puller.earliest_stored_ms(QUEUE) == message.stored_ms
        await puller.send_back(message, delay_level=1)
    await shop.until_heard(1)
    [heard] = shop.heard
    assert (heard.message.body, heard.message.topic, heard.message.reconsume_times) == (b"bad", TOPIC, 1)
