"""Producers that give a message a time of its own and think better of it; with the clock that jumps to it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, Message, Producer, ProducerSettings
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.recall_handle import decode_handle
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.test_client import NAMESRV
from tests.scenarios.test_transactions import BOTH_PROTOCOLS, HOUR_MS, TOPIC, Stand

pytestmark = pytest.mark.row("D4")


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    stand = await Stand(world, ClientSettings(protocol=getattr(request, "param", "staticfire"))).open(brokers=2)
    yield stand
    await stand.pool.close()


def producer(stand: Stand) -> Producer:
    machine = stand.world.machine("shop", host="10.0.2.1")
    return Producer("shop", NAMESRV, ProducerSettings(client=stand.settings), machine)


@BOTH_PROTOCOLS
async def test_what_is_recalled_never_comes(stand: Stand) -> None:
    async with producer(stand) as shop:
        kept = await shop.send(Message(TOPIC, b"kept", delay_ms=2 * HOUR_MS))
        regretted = await shop.send(Message(TOPIC, b"regretted", delay_ms=2 * HOUR_MS))
        handle = regretted.recall_handle or ""
        assert (kept.recall_handle is None, kept.recall_handle == handle) == (False, False)
        assert decode_handle(handle).broker_name == regretted.queue.broker_name
        assert await shop.recall(TOPIC, handle) == regretted.message_id
        assert await shop.recall(TOPIC, handle) == regretted.message_id
        answer = await stand.advance(2 * HOUR_MS)
        assert answer.delivered == 1
        assert await stand.stored() == [b"kept"]
        with pytest.raises(BrokerAnswer, match="timestamp invalid"):
            await shop.recall(TOPIC, kept.recall_handle or "")


@BOTH_PROTOCOLS
async def test_each_of_many_has_its_handle(stand: Stand) -> None:
    async with producer(stand) as shop:
        messages = [Message(TOPIC, b"%d" % number, delay_ms=HOUR_MS) for number in range(5)]
        results = await shop.send_many([Message(TOPIC, b"now"), *messages, Message(TOPIC, b"now")])
        assert [result.recall_handle is None for result in results] == [True, *([False] * 5), True]
        for result in results[1:4]:
            await shop.recall(TOPIC, result.recall_handle or "")
        await stand.advance(HOUR_MS)
    assert await stand.stored() == [b"3", b"4", b"now", b"now"]


async def test_a_moment_in_message_time(stand: Stand) -> None:
    async with producer(stand) as shop:
        now_ms = stand.brokers["broker-a"].state.clock.message_ms()
        await shop.send(Message(TOPIC, b"tomorrow", deliver_ms=now_ms + 24 * HOUR_MS))
        await stand.advance(24 * HOUR_MS - 1_000)
        assert await stand.stored() == []
        await stand.advance(1_000)
        assert await stand.stored() == [b"tomorrow"]


@pytest.mark.parametrize(
    ("topic", "handle", "words"),
    [
        (TOPIC, "", "recall handle is invalid"),
        (TOPIC, "???", "recall handle is invalid"),
        ("%RETRY%shop", "djEgb3JkZXJzIGJyb2tlci1hIDUwMDEgVTE=", "topic is not supported"),
        ("%DLQ%shop", "djEgb3JkZXJzIGJyb2tlci1hIDUwMDEgVTE=", "topic is not supported"),
    ],
)
async def test_what_cant_be_recalled(stand: Stand, topic: str, handle: str, words: str) -> None:
    async with producer(stand) as shop:
        with pytest.raises(ClientError, match=words):
            await shop.recall(topic, handle)
