"""Sends that a rule has answered with another status, although the message is stored."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import BrokerAnswer, ClientSettings, Message, Producer, SendStatus
from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, codec_for
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import PROTOCOLS
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import BROKER, ONE_TRY, FaultyShop

pytestmark = pytest.mark.row("S2")

STATUSES = ("FLUSH_DISK_TIMEOUT", "SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT")


@pytest_asyncio.fixture(params=PROTOCOLS)
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[FaultyShop]:
    shop = FaultyShop(world, ClientSettings(protocol=request.param))
    await shop.open(brokers=1, queues=1)
    yield shop
    await shop.close()


@pytest.mark.parametrize("status", STATUSES)
async def test_message_is_stored_and_its_place_is_in_the_result(shop: FaultyShop, status: str) -> None:
    added = await shop.add(code="SEND_MESSAGE", answer=status, direction="answer", times=1)
    assert added.words == f"SEND_MESSAGE: respond with {status} after it is carried out, once"
    result = await shop.producer.send(Message(TOPIC, b"one"))
    assert (result.status, result.queue_offset, shop.stored()) == (SendStatus[status], 0, 1)
    result = await shop.producer.send(Message(TOPIC, b"two"))
    assert (result.status, result.queue_offset, shop.stored()) == (SendStatus.SEND_OK, 1, 2)
    assert await shop.hits() == [1]


async def test_only_the_messages_of_a_bundle_that_a_rule_is_about_have_the_status(shop: FaultyShop) -> None:
    await shop.admin.create_topic("bills", queues=1)
    await shop.add(code="SEND_MESSAGE", topic="bills", answer="FLUSH_DISK_TIMEOUT", direction="answer", after=1)
    topics = ["bills", TOPIC, "bills", TOPIC]
    async with Producer("tills", NAMESRV, ONE_TRY, shop.world.machine("till", host="10.0.4.1")) as till:
        results = await till.send_many([Message(topic, b"1 book") for topic in topics])
    assert [result.status for result in results] == [
        SendStatus.SEND_OK, SendStatus.SEND_OK, SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.SEND_OK
    ]  # fmt: skip
    assert await shop.hits() == [1]


async def test_refused_send_keeps_its_error(shop: FaultyShop) -> None:
    await shop.add(code="SEND_MESSAGE", answer="SYSTEM_BUSY", times=9)
    await shop.add(code="SEND_MESSAGE", answer="FLUSH_DISK_TIMEOUT", direction="answer")
    with pytest.raises(BrokerAnswer) as refused:
        await shop.send(b"one")
    assert (refused.value.code, shop.stored()) == (2, 0)


@pytest.mark.parametrize("codec", [NATIVE, JSON, ROCKETMQ])
async def test_other_request_gets_an_error_without_its_result(shop: FaultyShop, codec: int) -> None:
    await shop.send(b"one")
    await shop.add(code="GET_MAX_OFFSET", answer="SYSTEM_ERROR", remark="not now", direction="answer", times=1)
    connection = await shop.pool.connection(BROKER)
    connection.codec = codec_for(codec)
    answer = await connection.ask(GetMaxOffset(TOPIC, 0), 1_000)
    assert (answer.code, answer.remark) == (1, "not now")
    answer = await connection.ask(GetMaxOffset(TOPIC, 0), 1_000)
    assert isinstance(answer, OffsetAnswer)
    assert (answer.code, answer.offset) == (0, 1)


async def test_rule_that_stays_is_removed_by_its_number_only(shop: FaultyShop) -> None:
    await shop.add(code="SEND_MESSAGE", delay="10ms")
    kept = await shop.add(code="SEND_MESSAGE", delay="20ms", stays=True)
    assert kept.words == "SEND_MESSAGE: delay by 20ms, until it is removed by its number"
    await shop.faults.remove(0)
    assert [view.number for view in await shop.faults.views()] == [kept.number]
    await reset(shop.admin.client.pool, NAMESRV, KnownBrokers())
    assert [view.number for view in await shop.faults.views()] == [kept.number]
    await shop.faults.remove(kept.number)
    assert await shop.faults.views() == []
