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
    OrderedContext,
    OrderedStatus,
    Producer,
    ProducerSettings,
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
from tests.scenarios.logged import LogLine, logged

__all__ = ["logged"]

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
async def test_a_second_consumer_of_a_group_is_refused_and_the_first_continues(
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
async def test_a_simple_consumer_continues_when_a_second_consumer_is_refused(
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


# -- one whose end is cancelled ----------------------------------------------------------------------------------------


def listeners_of(client: ClusterClient) -> list[int]:
    """Return how many functions are called for each kind of event of a client."""
    return [len(client.routes.listeners), len(client.broker_connected), len(client.broker_lost)]


async def cancelled_in_its_end(world: SimulatedWorld, member: Consumer | Producer) -> None:
    leaving = asyncio.ensure_future(member.__aexit__())
    await world.run_for(ms=100)
    assert not leaving.done()
    leaving.cancel()
    await asyncio.wait([leaving], timeout=1)
    assert leaving.cancelled()


def ordered(client: ClusterClient, _: list[bytes]) -> PushConsumer:
    consumer = push(client, [])

    @consumer.ordered_listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: OrderedContext) -> OrderedStatus:
        await asyncio.get_running_loop().create_future()
        return OrderedStatus.SUCCESS

    return consumer


def concurrent(client: ClusterClient, _: list[bytes]) -> PushConsumer:
    consumer = push(client, [])

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        await asyncio.get_running_loop().create_future()
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer


@pytest.mark.parametrize("make", [concurrent, ordered])
async def test_a_consumer_whose_end_is_cancelled_leaves_its_group(
    world: SimulatedWorld, shop: Shop, client: ClusterClient, make: Callable[[ClusterClient, list[bytes]], PushConsumer]
) -> None:
    async with push(client, []):
        pass
    registered = listeners_of(client)
    heard: list[bytes] = []
    await shop.send(b"stuck")
    stuck = await make(client, heard).__aenter__()
    await world.until(lambda: any(stuck.cached.values()))
    await cancelled_in_its_end(world, stuck)
    await world.run_for(ms=100)
    assert shop.brokers["broker-a"].tables.groups.consumers.client_ids(GROUP) == []
    assert listeners_of(client) == registered
    async with push(client, heard):
        await world.until(lambda: b"stuck" in heard, within_ms=70_000)


@pytest.mark.parametrize("make", [concurrent, lite_pull, simple])
async def test_a_consumer_whose_end_is_cancelled_while_its_broker_is_frozen_can_be_replaced(
    world: SimulatedWorld, shop: Shop, client: ClusterClient, make: Callable[[ClusterClient, list[bytes]], Consumer]
) -> None:
    async with push(client, []):
        pass
    registered = listeners_of(client)
    member = await make(client, []).__aenter__()
    if isinstance(member, LitePullConsumer):
        await shop.send(b"before")
        await member.poll()
    world.freeze("broker-a")
    await cancelled_in_its_end(world, member)
    assert listeners_of(client) == registered
    world.thaw("broker-a")
    heard: list[bytes] = []
    async with push(client, heard):
        await shop.send(b"after")
        await world.until(lambda: b"after" in heard)


async def test_a_producer_whose_end_is_cancelled_leaves_its_group(
    world: SimulatedWorld, shop: Shop, client: ClusterClient
) -> None:
    registered = listeners_of(client)
    settings = ProducerSettings(enable_trace=True)
    producer = await Producer("till", client=client, settings=settings).__aenter__()
    await producer.send(Message(TOPIC, b"before"))
    world.freeze("broker-a")
    late = producer.post(Message(TOPIC, b"late"))
    await cancelled_in_its_end(world, producer)
    assert listeners_of(client) == registered
    world.thaw("broker-a")
    await late
    async with Producer("till", client=client) as again:
        await again.send(Message(TOPIC, b"after"))


async def test_a_client_whose_loop_crashes_logs_it(
    world: SimulatedWorld, client: ClusterClient, logged: list[LogLine]
) -> None:
    async def look_around() -> None:
        raise ValueError("out of luck")

    client.spawn(look_around(), "look around")
    await world.run_for(ms=1)
    [line] = [line for line in logged if line.event == "loop_crashed"]
    assert line.level == "error"
    assert (line.fields["owner"], line.fields["loop"]) == ("ClusterClient", "look around")
    assert line.fields["error"] == "ValueError('out of luck')"
