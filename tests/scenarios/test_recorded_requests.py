"""What clients ask of a broker is recorded as it came, for assertions about what a client under test really did."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest
import pytest_asyncio

from staticfire.broker.journal.request_reading import Reads
from staticfire.client import (
    ClientSettings,
    ConsumeFromWhere,
    JournalRecord,
    Message,
    MessageQueue,
    PullConsumer,
    PushConsumer,
    PushSettings,
    UsageError,
)
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus
from staticfire.protocol.codecs import codec_for
from staticfire.protocol.command import Request
from staticfire.protocol.requests.clients import Heartbeat, HeartbeatData
from staticfire.protocol.requests.imports import ImportedMessage, ImportMessages
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.send import SendMany
from staticfire.runtime.dispatcher import Dispatcher
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Messages, Shop

BROKER_A = "10.0.1.1:10911"
MIN_AND_MAX = ("GET_MIN_OFFSET", "GET_MAX_OFFSET")
ON = {"journal_enable": False, "record_requests": True}

pytestmark = pytest.mark.row("S7")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), broker_settings=dict(ON))
    yield await shop.open(queues=2)
    await shop.close()


async def consumer_named(world: SimulatedWorld, shop: Shop, name: str, **settings: object) -> PushConsumer:
    client = ClientSettings(protocol=shop.settings.protocol, instance_name=name)
    chosen = PushSettings(client=client, **settings)  # type: ignore[arg-type]
    consumer = PushConsumer(GROUP, NAMESRV, chosen, world.machine(name))
    consumer.subscribe(TOPIC, "paid")

    @consumer.listener
    async def listen(_: Messages, context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    return await world.start(name, consumer)


@BOTH_PROTOCOLS
async def test_the_requests_of_one_client_are_found_by_its_name(world: SimulatedWorld, shop: Shop) -> None:
    await consumer_named(world, shop, "billing-1")
    await world.run_for(seconds=1)
    await consumer_named(world, shop, "billing-2", pull_batch_size=7, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await world.run_for(seconds=5)
    pulls = await shop.admin.requests("PULL_MESSAGE", client="billing-2", topic=TOPIC)
    assert len(pulls) == 1
    (pull,) = pulls
    assert (pull.kind, pull.code, pull.group, pull.topic) == ("request", "PULL_MESSAGE", GROUP, TOPIC)
    assert (pull.fields["maxMsgNums"], pull.fields["queueOffset"], pull.queue_offset) == (7, 0, 0)
    assert pull.client.endswith("@billing-2")
    assert all(one.client.endswith("@billing-1") for one in await shop.admin.requests(client="billing-1"))
    beats = await shop.admin.requests("heart_beat", client="billing-2")
    subscribed = beats[-1].details["body"]["consumerDataSet"][0]["subscriptionDataSet"]
    assert {one["topic"]: one["subString"] for one in subscribed} == {TOPIC: "paid", "%RETRY%billing": "*"}
    assert await shop.admin.requests(36) == []


@BOTH_PROTOCOLS
async def test_sends_are_recorded_one_by_one_without_their_bodies(shop: Shop) -> None:
    for number in range(3):
        await shop.producer.send(Message(TOPIC, b"x" * (100 + number), tags="paid"))
    await shop.producer.send_batch(
        [Message(TOPIC, b"1"), Message(TOPIC, b"2")], queue=MessageQueue(TOPIC, "broker-a", 1)
    )
    recorded = await shop.admin.requests(group="shop", topic=TOPIC)
    if shop.settings.protocol == "rocketmq":
        assert [one.code for one in recorded] == ["SEND_MESSAGE_V2"] * 3 + ["SEND_BATCH_MESSAGE"]
        assert [one.details["bodyBytes"] for one in recorded[:3]] == [100, 101, 102]
        assert recorded[3].queue_id == 1
        assert "TAGS\x01paid" in recorded[0].fields["properties"]
    else:
        assert {one.code for one in recorded} == {"SEND_MANY", "SEND_BATCH_MESSAGE"}
        sizes = [message["bodyBytes"] for one in recorded[:-1] for message in one.details["body"]]
        assert sizes == [100, 101, 102]
    assert all(b"xxx" not in repr(one).encode() for one in recorded)


async def test_many_sends_of_one_read_are_many_records(shop: Shop) -> None:
    await shop.producer.send_many([Message(TOPIC, b"%d" % number) for number in range(500)])
    messages = [message for one in await shop.admin.requests("SEND_MANY") for message in one.details["body"]]
    assert len(messages) == 500


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("IMPORT_MESSAGES", ImportMessages(TOPIC, 0, body=[ImportedMessage(b"", b"x", 1, b"\0" * 8)])),
        ("SEND_MANY", SendMany("shop", "TBW102", 4, body=[])),
    ],
)
async def test_a_body_whose_messages_name_no_topic_is_shown(shop: Shop, code: str, wanted: Request) -> None:
    await shop.producer.client.pool.ask(BROKER_A, wanted, 3_000)
    assert [one.code for one in await shop.admin.requests(code)] == [code]


async def test_what_is_refused_or_unknown_is_recorded_too(shop: Shop) -> None:
    reader = PullConsumer("readers", client=shop.producer.client)
    answer = await shop.producer.client.pool.ask(BROKER_A, PullMessage("readers", "never-made", 0, 0, 32, 0), 3_000)
    assert answer.code != 0
    assert (await shop.admin.requests("PULL_MESSAGE", topic="never-made"))[0].group == "readers"
    await reader.max_offset(MessageQueue(TOPIC, "broker-a", 0))
    connection = await shop.producer.client.pool.connection(BROKER_A)
    frame = codec_for(0).encode_request(GetMaxOffset(TOPIC, 0), 7, True)
    assert connection.transport is not None
    connection.transport.write(frame.replace(b'"code":30', b'"code":77'))
    connection.transport.write(
        frame.replace(b'"queueId":"0"', b'"queueId":"x"').replace(b'"queueId":0', b'"queueId":"x"')
    )
    await reader.max_offset(MessageQueue(TOPIC, "broker-a", 0))
    wrong = [one for one in await shop.admin.requests() if "error" in one.details]
    assert [one.details["error"][:20] for one in wrong] == ["unknown request code", wrong[1].details["error"][:20]]
    assert "queueId" in wrong[1].details["error"]
    assert all(one.details["oneway"] for one in wrong)


async def test_requests_in_pieces_are_whole(shop: Shop) -> None:
    """Frames that come byte by byte, or end in the middle of a read."""
    pool = shop.producer.client.pool
    await pool.ask(BROKER_A, GetMaxOffset(TOPIC, 0), 3_000)
    connection = await pool.connection(BROKER_A)
    transport = connection.transport
    assert transport is not None
    frames = b"".join(codec_for(2).encode_request(GetMaxOffset(TOPIC, number), number, True) for number in range(3))
    for at in range(40):
        transport.write(frames[at : at + 1])
        await shop.world.run_for(ms=1)
    transport.write(frames[40:-1])
    await shop.world.run_for(ms=1)
    transport.write(frames[-1:])
    await shop.world.run_for(ms=1)
    reported = await shop.admin.requests("GET_MAX_OFFSET")
    assert [one.queue_id for one in reported] == [0, 0, 1, 2]
    assert [one.number for one in reported] == sorted({one.number for one in reported})


async def test_only_the_newest_are_kept_and_what_begins_before_them_is_left_out(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={**ON, "recorded_requests_bytes_max": 65_536}).open()
    queue = MessageQueue(TOPIC, "broker-a", 0)
    for number in range(300):
        await shop.producer.send(Message(TOPIC, b"%d" % number * 300), queue=queue)
    recorded = await shop.admin.requests("SEND_MANY")
    assert recorded.dropped > 0
    assert 20 < len(recorded) < 300
    assert recorded[-1].details["body"][0]["bodyBytes"] == 900
    await shop.close()


async def test_a_long_body_that_came_in_many_reads_is_one_request(world: SimulatedWorld) -> None:
    shop = await Shop(world, ClientSettings(protocol="rocketmq"), broker_settings=dict(ON)).open()
    body = bytes(range(256)) * 8_000
    await shop.producer.send(Message(TOPIC, body))
    (sent,) = await shop.admin.requests("SEND_MESSAGE_V2")
    assert sent.details["bodyBytes"] > 0
    assert sent.topic == TOPIC
    await shop.close()


async def test_a_frame_that_came_byte_by_byte_is_read_at_once(shop: Shop) -> None:
    """Reading takes a step for each read, however many there are."""
    pool = shop.producer.client.pool
    transport = (await pool.connection(BROKER_A)).transport
    assert transport is not None
    frame = codec_for(2).encode_request(GetMaxOffset("t" * 100, 7), 7, True)
    for _ in range(200):
        for at in range(len(frame)):
            transport.write(frame[at : at + 1])
            await shop.world.run_for(ms=0.01)
    steps: list[int] = []
    reads = Reads.before

    def counted(self: Reads, number: int, address: str) -> Iterator[bytes]:
        steps.append(number)
        return reads(self, number, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reads, "before", counted)
        assert [one.queue_id for one in await shop.admin.requests("GET_MAX_OFFSET")] == [7] * 200
    assert len(steps) < 50


async def test_it_is_read_page_by_page(shop: Shop) -> None:
    reader = PullConsumer("readers", client=shop.producer.client)
    for number in range(2_500):
        await reader.pull(MessageQueue(TOPIC, "broker-a", 0), number)
    reported = await shop.admin.requests("PULL_MESSAGE", group="readers")
    assert [one.queue_offset for one in reported] == list(range(2_500))


async def test_a_code_that_does_not_exist_is_reported(shop: Shop) -> None:
    for code in ("PULL_MESSAGES", 77):
        with pytest.raises(UsageError, match="is not a request code; write its name, like PULL_MESSAGE"):
            await shop.admin.requests(code)


async def test_whoever_looks_is_not_seen(shop: Shop) -> None:
    await shop.admin.requests()
    assert "GET_JOURNAL" not in {one.code for one in await shop.admin.requests()}


async def test_without_it_nothing_is_between_a_connection_and_its_reader(world: SimulatedWorld) -> None:
    shop = await Shop(world).open()
    dispatcher = shop.brokers["broker-a"].dispatcher
    assert isinstance(dispatcher, Dispatcher)
    assert dispatcher.tap is None
    await shop.close()


def names_of(records: list[JournalRecord]) -> set[str]:
    return {one.code for one in records}


async def test_administrators_are_clients_too(shop: Shop) -> None:
    await shop.admin.create_topic("more", 2)
    assert "UPDATE_AND_CREATE_TOPIC" in names_of(await shop.admin.requests(topic="more"))


async def test_a_heartbeat_without_a_client_id_does_not_break_the_records(world: SimulatedWorld, shop: Shop) -> None:
    pool = ConnectionPool(world.machine("strange", "10.0.0.77"))
    assert (await pool.ask(BROKER_A, Heartbeat(body=HeartbeatData(cast(str, None))))).code != 0
    await pool.close()
    [beat] = await shop.admin.requests("HEART_BEAT", group="")
    assert beat.client.startswith("10.0.0.77:")


@BOTH_PROTOCOLS
async def test_requests_of_one_code_are_the_same_as_among_all(world: SimulatedWorld, shop: Shop) -> None:
    consumer = await shop.start("one")
    await shop.send(b"1", b"2")
    await shop.until_heard(2)
    pool = ConnectionPool(world.machine("tool", host="10.0.0.78"))
    # Both arrive in one read.
    await asyncio.gather(*(pool.ask(BROKER_A, kind(TOPIC, 0)) for kind in (GetMinOffset, GetMaxOffset)))
    await pool.close()
    everything = await shop.admin.requests()
    least, most = ([one.number for one in everything if one.code == code] for code in MIN_AND_MAX)
    assert {number + 1 for number in least} <= set(most)
    for code, numbers in zip(MIN_AND_MAX, (least, most), strict=True):
        assert [one.number for one in await shop.admin.requests(code)] == numbers
    for code in ("PULL_MESSAGE", "HEART_BEAT"):
        wanted = await shop.admin.requests(code)
        assert {one.client for one in wanted} == {consumer.client.client_id}
        assert [one for one in everything if one.code == code] == [
            one for one in wanted if one.number <= everything[-1].number
        ]
