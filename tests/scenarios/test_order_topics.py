"""Ordered topics: their queues are what key-value configuration says, whatever brokers are there."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import Admin, ClientError, ClientSettings, ConnectFailed, Message, Producer, by_hash
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.requests.routes import ORDER_TOPIC_CONFIG
from staticfire.protocol.requests.static_topics import MappingInfo
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, fake_cluster
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Shop

pytestmark = pytest.mark.row("H1")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(
        world,
        getattr(request, "param", ClientSettings()),
        nameserver_settings=NameserverSettings(order_message_enable=True),
    )
    yield await shop.open(brokers=2)
    await shop.close()


async def queues_now(shop: Shop) -> list[str]:
    """Return where messages can go, as a client finds it that asks anew."""
    await shop.producer.client.routes.fetch(TOPIC)
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in await shop.producer.queues(TOPIC)]


@BOTH_PROTOCOLS
async def test_the_queues_are_exactly_those_listed(shop: Shop) -> None:
    await shop.admin.put_kv(ORDER_TOPIC_CONFIG, TOPIC, "broker-b:2;broker-a:1")
    assert await queues_now(shop) == ["broker-b:0", "broker-b:1", "broker-a:0"]
    await shop.admin.put_kv(ORDER_TOPIC_CONFIG, TOPIC, "broker-a:1")
    assert await queues_now(shop) == ["broker-a:0"]
    assert await shop.admin.list_kv(ORDER_TOPIC_CONFIG) == {TOPIC: "broker-a:1"}
    await shop.admin.delete_kv(ORDER_TOPIC_CONFIG, TOPIC)
    assert len(await queues_now(shop)) == 8


@BOTH_PROTOCOLS
async def test_messages_of_a_key_wait_for_their_broker_and_go_nowhere_else(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.put_kv(ORDER_TOPIC_CONFIG, TOPIC, "broker-a:1;broker-b:1")
    await queues_now(shop)
    sent = [await shop.producer.send(Message(TOPIC, b"%d" % n), selector=by_hash, key=n) for n in range(2)]
    assert [result.queue.broker_name for result in sent] == ["broker-a", "broker-b"]
    await world.stop("broker-b")
    assert await queues_now(shop) == ["broker-a:0", "broker-b:0"]
    with pytest.raises(ConnectFailed):
        await shop.producer.send(Message(TOPIC, b"3"), selector=by_hash, key=1)
    await shop.start_broker("broker-b")
    await shop.producer.client.routes.fetch(TOPIC)
    again = await shop.producer.send(Message(TOPIC, b"3"), selector=by_hash, key=1)
    assert again.queue == sent[1].queue


async def test_brokers_hear_of_it_with_their_next_registration(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.put_kv(ORDER_TOPIC_CONFIG, TOPIC, "broker-a:1")
    await world.run_for(seconds=31)
    assert (await shop.admin.topic_config(TOPIC, "broker-a")).order


@pytest.mark.parametrize("conf", ["broker-a", "broker-a:x", ":4", "broker-a:4;", "broker-a:-1", "broker-a:999999999"])
async def test_nonsense_is_reported_to_its_sender(shop: Shop, conf: str) -> None:
    await shop.admin.put_kv(ORDER_TOPIC_CONFIG, TOPIC, conf)
    async with Producer("other", NAMESRV, machine=shop.world.machine("other")) as producer:
        with pytest.raises(
            ProtocolError, match=r"orderTopicConf .* of topic orders must be written as broker:count;broker:count"
        ):
            await producer.send(Message(TOPIC, b"1"))


async def test_a_static_topic_is_refused_in_words(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.nameserver.routes["orders"].topic_queue_mapping_by_broker = {"broker-a": MappingInfo(total_queues=4)}
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ClientError, match="orders is a static topic"):
            await producer.send(Message("orders", b"1"))
    async with Admin(NAMESRV, machine=cluster.machine) as admin:
        with pytest.raises(ClientError, match="orders is a static topic"):
            await admin.route("orders")
