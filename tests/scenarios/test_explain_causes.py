"""What isn't a cause, although members have no queue, or no subscription; and a cause that nameservers forget."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ConsumeFromWhere, PushConsumer
from staticfire.client.explain.explainer import explain_group
from staticfire.protocol.requests.locks import LockQueues, MessageQueue, QueuesOfClient
from staticfire.simulation.world import SimulatedWorld
from staticfire.testing.report import describe
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop
from tests.scenarios.polling import QUEUE, lite_pull

pytestmark = pytest.mark.row("S4")

WRITE_ONLY = 2


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, broker_settings={"journal_enable": True})
    yield await shop.open(brokers=1, queues=1)
    await shop.close()


async def causes(shop: Shop) -> list[str]:
    return [one.kind for one in (await explain_group(shop.admin, GROUP)).causes]


async def test_a_lock_keeps_a_new_group_from_its_queues(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"x")
    wanted = QueuesOfClient(GROUP, "ghost", [MessageQueue(TOPIC, "broker-a", 0)])
    await shop.admin.client.pool.ask("10.0.1.1:10911", LockQueues(body=wanted))
    consumer = PushConsumer(GROUP, NAMESRV, machine=world.machine("one", host="10.0.5.1"))
    consumer.subscribe(TOPIC)

    @consumer.ordered_listener
    async def listen(messages: object, context: object) -> None: ...

    await world.start("one", consumer)
    await world.run_for(seconds=5)
    assert await causes(shop) == ["LOCKED"]


async def test_a_topic_that_cannot_be_read_has_no_queue_to_find(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=1, perm=WRITE_ONLY)
    await shop.send(b"x", topic="refunds")
    await shop.start("one", topic="refunds")
    await world.run_for(seconds=5)
    assert await causes(shop) == ["TOPIC_NOT_READABLE"]


async def test_a_member_consumes_the_queues_that_it_has_assigned(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"x")
    consumer = lite_pull(shop, "one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await world.start("one", consumer)
    await consumer.assign([QUEUE])
    assert len(await consumer.poll(1_000)) == 1
    assert (await explain_group(shop.admin, GROUP)).headline == "billing: 1 member, 1 message behind in orders"
    await consumer.commit()
    assert await causes(shop) == []
    await shop.send(b"y")
    await world.run_for(seconds=20)
    assert await causes(shop) == ["STOPPED_POLLING"]


async def test_a_broker_that_has_ended_is_missed_although_no_nameserver_knows_it(world: SimulatedWorld) -> None:
    shop = await Shop(world).open(brokers=2, queues=1)
    await shop.start("one")
    await shop.send(b"1", b"2")
    await shop.until_heard(2)
    await shop.send(b"3", b"4")
    world.kill("broker-b")
    await shop.until_heard(3)
    await world.run_for(seconds=10)  # The offset is stored.
    brokers = ["broker-a", "broker-b"]
    explained = await explain_group(shop.admin, GROUP, brokers=brokers)
    words = "broker broker-b isn't registered at the nameserver: nothing is known of its messages"
    assert [(one.kind, one.words) for one in explained.causes] == [("BROKER_AWAY", words)]
    assert explained.headline == (
        "billing: 1 member, no backlog on broker-a: all messages of its topics are consumed or skipped"
    )
    assert words in await describe(shop.admin, [GROUP], brokers=brokers)
    await shop.close()
