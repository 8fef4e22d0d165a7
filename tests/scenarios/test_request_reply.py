"""A program asks, another one answers: over both protocols, in a simulated world."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staticfire.client import (
    ClientSettings,
    ClusterClient,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, ClientError
from staticfire.protocol.names import reply_topic
from staticfire.protocol.properties import (
    ARRIVE_TIME,
    CORRELATION_ID,
    MSG_TYPE,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TTL,
    format_properties,
)
from staticfire.protocol.requests.clients import Heartbeat, HeartbeatData, ProducerData
from staticfire.protocol.requests.reply import SendReplyV2
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand
from tests.scenarios.test_client import NAMESRV, cluster, read_all, start_broker

TOPIC = "rpc"
REPLIES = reply_topic("DefaultCluster")
PROTOCOLS = [ClientSettings(), ClientSettings(protocol="rocketmq")]
EITHER_PROTOCOL = pytest.mark.parametrize(
    ("asks", "answers"),
    [(asks, answers) for asks in PROTOCOLS for answers in PROTOCOLS],
    ids=lambda settings: settings.protocol,
)


@asynccontextmanager
async def answering(
    world: SimulatedWorld, settings: ClientSettings | None = None, wait_s: float = 0.0
) -> AsyncIterator[list[ReceivedMessage]]:
    """A program that answers each message with its body in capitals; what it was asked."""
    machine = world.machine("server", host="10.0.3.1")
    requested: list[ReceivedMessage] = []
    async with (
        ClusterClient(NAMESRV, settings or ClientSettings(), machine) as client,
        Producer("servers", client=client) as producer,
    ):
        consumer = PushConsumer("servers", settings=PushSettings(), client=client)
        consumer.subscribe(TOPIC)

        @consumer.listener
        async def answer(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            requested.extend(messages)
            await world.run_for(seconds=wait_s)
            await producer.reply(messages[0], messages[0].body.upper(), {"answered-by": "server"})
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer:
            yield requested


@EITHER_PROTOCOL
@pytest.mark.row("F5")
async def test_a_request_is_answered(world: SimulatedWorld, asks: ClientSettings, answers: ClientSettings) -> None:
    machine = await cluster(world, brokers=2)
    async with (
        answering(world, answers) as requested,
        ClusterClient(NAMESRV, asks, machine) as client,
        Producer("askers", client=client) as producer,
    ):
        reply = await producer.request(Message(TOPIC, b"ping"), timeout_ms=30_000)
        client_id = client.client_id
    assert (reply.topic, reply.body) == (REPLIES, b"PING")
    assert reply.properties.items() >= {
        MSG_TYPE: "reply", REPLY_TO_CLIENT: client_id, TTL: "30000", "answered-by": "server",
    }.items()  # fmt: skip
    assert reply.born_host.startswith("10.0.3.1:")
    assert reply.store_host in {f"10.0.1.{number}:10911" for number in (1, 2)}
    assert reply.get(CORRELATION_ID) == requested[0].get(CORRELATION_ID)
    assert reply.get(PUSH_REPLY_TIME)
    assert reply.get(ARRIVE_TIME)


async def test_each_of_many_requests_gets_its_own_reply(world: SimulatedWorld) -> None:
    machine = await cluster(world, brokers=2)
    async with answering(world, wait_s=0.01), Producer("askers", NAMESRV, machine=machine) as producer:
        asks = [producer.request(Message(TOPIC, b"ping-%d" % number), 60_000) for number in range(50)]
        replies = await asyncio.gather(*asks)
    assert [reply.body for reply in replies] == [b"PING-%d" % number for number in range(50)]


async def test_a_long_reply_travels_compressed_and_comes_as_it_was(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with answering(world), Producer("askers", NAMESRV, machine=machine) as producer:
        reply = await producer.request(Message(TOPIC, b"ping " * 10_000), 60_000)
    assert reply.body == b"PING " * 10_000
    assert reply.record.body != reply.body


async def test_a_request_without_an_answer_ends_in_time(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with Producer("askers", NAMESRV, machine=machine) as producer:
        started_ms = world.uptime_ms
        with pytest.raises(AnswerTimeout, match=r"send request message to <rpc> OK, but wait reply message timeout"):
            await producer.request(Message(TOPIC, b"ping"), timeout_ms=2_000)
        assert 2_000 <= world.uptime_ms - started_ms < 2_100


async def test_a_reply_that_comes_too_late_is_stored_and_disturbs_no_request(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with answering(world, wait_s=20), Producer("askers", NAMESRV, machine=machine) as producer:
        with pytest.raises(AnswerTimeout):
            await producer.request(Message(TOPIC, b"late"), timeout_ms=10_000)
        reply = await producer.request(Message(TOPIC, b"in time"), timeout_ms=60_000)
        assert reply.body == b"IN TIME"
        async with PullConsumer("readers", NAMESRV, machine=machine) as consumer:
            assert sorted(await read_all(consumer, REPLIES)) == [b"IN TIME", b"LATE"]


async def test_the_answering_client_learns_that_the_requesting_one_is_gone(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with answering(world) as requested, Producer("askers", NAMESRV, machine=machine) as producer:
        await producer.request(Message(TOPIC, b"ping"), timeout_ms=60_000)
    async with Producer("servers", NAMESRV, machine=machine) as server:
        with pytest.raises(BrokerAnswer, match=r"push reply message fail, channel of <.*> not found\."):
            await server.reply(requested[0], b"PONG")


async def test_a_message_that_asks_for_nothing_cannot_be_answered(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with (
        Producer("shop", NAMESRV, machine=machine) as producer,
        PullConsumer("readers", NAMESRV, machine=machine) as consumer,
    ):
        result = await producer.send(Message(TOPIC, b"by the way"))
        [message] = (await consumer.pull(result.queue, result.queue_offset)).messages
        with pytest.raises(ClientError, match=r"is not a request"):
            await producer.reply(message, b"PONG")


async def test_a_request_is_answered_after_its_broker_was_killed(world: SimulatedWorld) -> None:
    machine = await cluster(world)
    async with answering(world), Producer("askers", NAMESRV, machine=machine) as producer:
        await producer.request(Message(TOPIC, b"before"), timeout_ms=60_000)
        world.kill("broker-a")
        await start_broker(world, "broker-a", "10.0.1.1")
        reply = await producer.request(Message(TOPIC, b"after"), timeout_ms=120_000)
    assert reply.body == b"AFTER"


@pytest.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    yield stand
    await stand.close()


def bare_reply(**properties: str) -> SendReplyV2:
    return SendReplyV2(
        "servers", REPLIES, "TBW102", 4, 0, 0, 1, 0, format_properties(properties).decode(), body=b"PONG"
    )


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_reply_to_an_unknown_client_is_answered_like_rocketmq_does(stand: BrokerStand, is_stored: bool) -> None:
    await stand.restart(store_reply_message_enable=is_stored)
    answer = await stand.ask(bare_reply(REPLY_TO_CLIENT="nobody"))
    assert (answer.code, answer.remark) == (1, "push reply message fail, channel of <nobody> not found.")
    answer = await stand.ask(bare_reply())
    assert (answer.code, answer.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")
    assert len(await stand.stored(REPLIES)) == (2 if is_stored else 0)


@pytest.mark.row("F5")
async def test_a_program_that_reconnected_gets_replies_after_its_old_connection_is_lost(world: SimulatedWorld) -> None:
    stand, pushed = BrokerStand(world), list[bytes]()
    await stand.start()

    def keep(call: Call) -> Answer:
        pushed.append(call.request.body)
        return Answer()

    def connection() -> ConnectionPool:
        dispatcher = Dispatcher()
        dispatcher.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, keep)
        return ConnectionPool(world.machine("asker", "10.0.0.7"), dispatcher)

    old, new = connection(), connection()
    beat = Heartbeat(body=HeartbeatData(client_id="10.0.0.7@1", producer_data_set=[ProducerData("askers")]))
    for pool in (old, new):
        assert (await pool.ask(ADDRESS, beat)).code == 0
    await old.close()
    await world.run_for(50)
    properties = format_properties({REPLY_TO_CLIENT: "10.0.0.7@1", CORRELATION_ID: "1"}).decode()
    answer = await stand.ask(SendReplyV2("servers", REPLIES, "TBW102", 4, 0, 0, 0, 0, properties, body=b"reply"))
    assert (answer.code, pushed) == (0, [b"reply"])
    await new.close()
    await stand.close()
