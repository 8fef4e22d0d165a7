"""A consumer that drives itself."""

import zlib

import pytest

from staticfire.client import Message, Producer, PullConsumer, PullSettings, PullStatus
from staticfire.client.cluster.pull_answers import received
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.codecs import json
from staticfire.protocol.compression import compress
from staticfire.protocol.errors import AnswerTimeout, ClientError, ConnectFailed, TopicNotFound
from staticfire.protocol.limits import EXPANDED_BYTES_MAX
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.protocol.rocketmq_record import rocketmq_records
from staticfire.protocol.sys_flag import COMPRESSED, CompressionKind, with_compression
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, Arrival, FakeCluster, fake_cluster
from tests.client.received import HOST

QUEUE = MessageQueue("orders", "broker-a", 0)
SETTINGS = [PullSettings(), PullSettings(client=ClientSettings(protocol="rocketmq"))]
BOTH_PROTOCOLS = pytest.mark.parametrize("settings", SETTINGS, ids=["staticfire", "rocketmq"])


def store(cluster: FakeCluster, *arrivals: Arrival) -> None:
    cluster.brokers[0].stored["orders", 0] = list(arrivals)


def message(body: bytes, tag: str = "", sys_flag: int = 0) -> Arrival:
    properties = b"UNIQ_KEY\x01%b\x02" % body[:20] + (b"TAGS\x01%b\x02" % tag.encode() if tag else b"")
    return Arrival("orders", 0, body, properties, sys_flag)


@BOTH_PROTOCOLS
async def test_a_queue_is_read_from_its_beginning_to_its_end(world: SimulatedWorld, settings: PullSettings) -> None:
    cluster = await fake_cluster(world)
    store(cluster, *[message(b"%d" % number) for number in range(70)])
    bodies: list[bytes] = []
    async with PullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        assert QUEUE in await consumer.queues("orders")
        offset = 0
        while (result := await consumer.pull(QUEUE, offset)).status is PullStatus.FOUND:
            bodies += [each.body for each in result.messages]
            offset = result.next_offset
    assert bodies == [b"%d" % number for number in range(70)]
    assert (result.status, result.next_offset, result.max_offset) == (PullStatus.NO_NEW_MSG, 70, 70)
    assert cluster.brokers[0].journal.heartbeats == []


@BOTH_PROTOCOLS
async def test_a_message_says_where_it_is_and_who_made_it(world: SimulatedWorld, settings: PullSettings) -> None:
    cluster = await fake_cluster(world)
    store(cluster, message(b"zero"), message(b"one", tag="paid"))
    async with PullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        [found] = (await consumer.pull(QUEUE, 1)).messages
    assert (found.topic, found.broker_name, found.queue_id, found.queue_offset) == ("orders", "broker-a", 0, 1)
    assert (found.tags, found.message_id) == ("paid", "one")
    assert found.store_host == "10.0.1.1:10911"
    assert found.offset_message_id == "0A00010100002A9F00000000000003E8"


async def test_tags_are_compared_by_value_again(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    store(cluster, message(b"1", "Aa"), message(b"2", "BB"), message(b"3"))  # "Aa" and "BB" have the same hash code.
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        result = await consumer.pull(QUEUE, 0, expression="BB || CC")
    assert [each.body for each in result.messages] == [b"2"]
    assert (result.status, result.next_offset) == (PullStatus.FOUND, 3)


async def test_an_expression_of_bars_only_is_refused(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        with pytest.raises(ClientError, match="contains no tag"):
            await consumer.pull(QUEUE, 0, expression="||")


async def test_an_offset_beyond_the_end_is_corrected(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        result = await consumer.pull(QUEUE, 100)
    assert (result.status, result.next_offset, result.messages) == (PullStatus.OFFSET_ILLEGAL, 0, [])


@BOTH_PROTOCOLS
async def test_compressed_bodies_are_expanded(world: SimulatedWorld, settings: PullSettings) -> None:
    cluster = await fake_cluster(world)
    kinds = [message(compress(bytes(9000), kind, 5), sys_flag=with_compression(0, kind)) for kind in CompressionKind]
    store(cluster, *kinds, message(b"strange", sys_flag=COMPRESSED | 0x500))
    async with PullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        *known, strange = (await consumer.pull(QUEUE, 0)).messages
    assert [(one.body, one.undecoded) for one in known] == [(bytes(9000), None)] * 3
    assert (strange.body, (strange.undecoded or "")[:36]) == (
        b"strange",
        "the compression of a body is unknown",
    )


BOMB = zlib.compress(bytes(EXPANDED_BYTES_MAX + 1))
POISON = [
    (b"no zlib", "a body can't be decompressed with zlib"),
    (zlib.compress(bytes(9000))[:-1], "a compressed body is incomplete"),
    (BOMB, f"a body is larger than {EXPANDED_BYTES_MAX} bytes when it is decompressed"),
]


@BOTH_PROTOCOLS
@pytest.mark.parametrize(("body", "why"), POISON, ids=["nonsense", "broken off", "bomb"])
async def test_a_body_that_can_not_be_expanded_hides_no_other(
    world: SimulatedWorld, settings: PullSettings, body: bytes, why: str
) -> None:
    cluster = await fake_cluster(world)
    store(cluster, message(b"before"), message(body, sys_flag=COMPRESSED), message(b"after"))
    async with PullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        result = await consumer.pull(QUEUE, 0)
    assert [each.body for each in result.messages] == [b"before", body, b"after"]
    before, poison, after = [each.undecoded for each in result.messages]
    assert (before, after) == (None, None)
    assert poison is not None
    assert poison.startswith(why)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_that_was_damaged_on_the_way_is_marked(compressed: bool) -> None:
    """RocketMQ's records have the body's CRC. Its own clients don't look at it."""
    body = zlib.compress(bytes(9000)) if compressed else b"paid"
    flags = COMPRESSED if compressed else 0
    whole = rocketmq_records(
        [pack_record(0, 0, 0, 0, 0, flags, 0, 0, 0, bytes(8), pack_topic("orders"), b"", body)], HOST
    )
    damaged = whole[0].replace(body, body[:-1] + bytes([body[-1] ^ 1]))
    answer = json.read_records(whole[0] + damaged + whole[0])
    found = received(answer, "broker-a", None, HOST)
    assert [message.undecoded for message in found] == [None, "the body doesn't match its CRC", None]
    assert found[1].body == body[:-1] + bytes([body[-1] ^ 1])


async def test_what_was_sent_large_comes_back_as_it_was(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with (
        Producer("shop", NAMESRV, machine=cluster.machine) as producer,
        PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer,
    ):
        result = await producer.send(Message("orders", bytes(100_000), tags="big", keys="k1"))
        [found] = (await consumer.pull(result.queue, result.queue_offset)).messages
    assert (found.body, found.tags, found.keys) == (bytes(100_000), "big", ["k1"])
    assert found.message_id == result.message_id
    assert found.offset_message_id == result.offset_message_id


async def test_a_held_pull_is_waited_for_longer_than_it_is_held(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].hold = True
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        world.loop.call_later(25, cluster.brokers[0].release)
        result = await consumer.pull(QUEUE, 0, wait_ms=20_000)
        assert result.status is PullStatus.NO_NEW_MSG
        cluster.brokers[0].hold = True
        with pytest.raises(AnswerTimeout, match="no response to PULL_MESSAGE"):
            await consumer.pull(QUEUE, 0)
        assert 35_000 <= world.uptime_ms < 35_100


async def test_unknown_topics_and_brokers_are_reported(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        with pytest.raises(TopicNotFound, match="no route to topic bills"):
            await consumer.queues("bills")
        with pytest.raises(ConnectFailed, match=r"broker gone isn't in the route of orders; known brokers: broker-a"):
            await consumer.pull(MessageQueue("orders", "gone", 0), 0)


@pytest.mark.parametrize("group", ["", "a b", "x" * 256])
def test_an_illegal_group_is_refused(group: str) -> None:
    with pytest.raises(ClientError, match="the group"):
        PullConsumer(group, NAMESRV)
