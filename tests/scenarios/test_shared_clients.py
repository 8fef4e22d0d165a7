"""Several producers and consumers of one client: one that is refused, or ends early, leaves the others as they are."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from staticfire.client import (
    ClientError,
    ClusterClient,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from staticfire.client.consume.membership.admin_requests import AdminRequests
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

Consumer = PushConsumer | SimpleConsumer | LitePullConsumer


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = await Shop(world).open(queues=1)
    yield shop
    await shop.close()


@pytest_asyncio.fixture
async def client(world: SimulatedWorld, shop: Shop) -> AsyncIterator[ClusterClient]:
    async with ClusterClient(NAMESRV, machine=world.machine("program", host="10.0.3.1")) as client:
        yield client


def push(client: ClusterClient, heard: list[bytes]) -> PushConsumer:
    settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(GROUP, client=client, settings=settings)
    consumer.subscribe(TOPIC)

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        heard.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer


def simple(client: ClusterClient, _: list[bytes]) -> SimpleConsumer:
    consumer = SimpleConsumer(GROUP, client=client)
    consumer.subscribe(TOPIC)
    return consumer


def lite_pull(client: ClusterClient, _: list[bytes]) -> LitePullConsumer:
    consumer = LitePullConsumer(GROUP, client=client)
    consumer.subscribe(TOPIC)
    return consumer


def commit(_: ReceivedMessage) -> TransactionState:
    return TransactionState.COMMIT


# -- one that is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [push, simple, lite_pull])
async def test_a_second_consumer_of_a_group_is_refused_and_the_first_goes_on(
    shop: Shop, client: ClusterClient, make: Callable[[ClusterClient, list[bytes]], Consumer]
) -> None:
    heard: list[bytes] = []
    async with push(client, heard):
        with pytest.raises(ClientError, match="has been created before"):
            await make(client, heard).__aenter__()
        assert shop.brokers["broker-a"].tables.groups.consumers.client_ids(GROUP) == [client.client_id]
        assert GROUP in AdminRequests.of(client).consumers
        await shop.send(b"after")
        await shop.world.until(lambda: heard == [b"after"])


@pytest.mark.parametrize("make", [push, simple, lite_pull])
async def test_a_simple_consumer_goes_on_when_a_second_consumer_is_refused(
    shop: Shop, client: ClusterClient, make: Callable[[ClusterClient, list[bytes]], Consumer]
) -> None:
    async with simple(client, []) as first:
        with pytest.raises(ClientError, match="has been created before"):
            await make(client, []).__aenter__()
        assert GROUP in AdminRequests.of(client).consumers
        await shop.send(b"after")
        assert [message.body for message in await first.receive()] == [b"after"]


@pytest.mark.parametrize("is_transactional", [True, False])
async def test_a_producer_of_transactions_is_checked_after_a_second_one_was_refused(
    shop: Shop, client: ClusterClient, is_transactional: bool
) -> None:
    heard: list[bytes] = []
    async with push(client, heard), TransactionProducer("orders", client=client, check=commit) as first:
        second = (
            TransactionProducer("orders", client=client, check=commit)
            if is_transactional
            else Producer("orders", client=client)
        )
        with pytest.raises(ClientError, match="has been created before"):
            await second.__aenter__()
        await first.send_in_transaction(Message(TOPIC, b"paid"), lambda *_: TransactionState.UNKNOWN)
        await shop.advance(hours=1)
        await shop.world.until(lambda: heard == [b"paid"])
