"""What a program sees when it sends."""

import asyncio
import zlib
from dataclasses import replace
from typing import Any, Literal

import pytest

from staticfire.client import Message, Producer, ProducerSettings, SendStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.compression import expand
from staticfire.protocol.errors import BrokerAnswer, ClientError, MessageIllegal, NetworkError, TopicNotFound
from staticfire.protocol.properties import parse_properties
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import BOTH_PROTOCOLS, NAMESRV, fake_cluster


@BOTH_PROTOCOLS
async def test_a_result_says_where_the_message_is(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        result = await producer.send(Message("orders", b"one", tags="paid", keys=["42", "43"]))
    [[arrival]] = cluster.brokers[0].journal.requests
    properties = parse_properties(arrival.properties)
    assert result.status is SendStatus.SEND_OK
    assert result.queue == MessageQueue("orders", "broker-a", arrival.queue_id)
    assert result.queue_offset == 0
    assert result.message_id == properties["UNIQ_KEY"]
    assert result.offset_message_id == "0A00010100002A9F" + "0" * 16
    assert properties | {"UNIQ_KEY": ""} == {"TAGS": "paid", "KEYS": "42 43", "WAIT": "true", "UNIQ_KEY": ""}


@BOTH_PROTOCOLS
async def test_messages_go_round_robin_over_all_queues_of_all_brokers(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        results = await producer.send_many([Message("orders", b"%d" % number) for number in range(16)])
    queues = [result.queue for result in results]
    assert len(set(queues)) == 8
    assert sorted(queues[:8]) == sorted(queues[8:])


async def test_an_unknown_topic_takes_the_default_topics_route_with_four_queues(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, topic=None)
    cluster.route("TBW102", queues=8)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        queues = await producer.queues("new")
        await producer.send(Message("new", b"one"))
    assert queues == [MessageQueue("new", "broker-a", number) for number in range(4)]
    assert cluster.nameserver.requested == ["new", "TBW102"]


async def test_the_guessed_route_is_replaced_by_the_real_one(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, topic=None)
    cluster.route("TBW102", queues=8)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send(Message("new", b"one"))
        cluster.route("new", queues=2)
        await world.run_for(seconds=31)
        assert len(await producer.queues("new")) == 2


@BOTH_PROTOCOLS
async def test_a_topic_without_any_route_is_reported_with_the_remedy(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world, topic=None)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        with pytest.raises(
            TopicNotFound, match=r"no route to topic orders at .*10\.0\.0\.1:9876.*staticfire create orders"
        ) as raised:
            await producer.send(Message("orders", b"one"))
    assert raised.value.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_read_only_topic_is_reported(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("orders", perm=4)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ClientError, match=r"no writable queue.*broker-a: perm 4"):
            await producer.send(Message("orders", b"one"))


async def test_sends_that_wait_for_the_same_route_ask_for_it_once(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await asyncio.gather(*[producer.send(Message("orders", b"%d" % number)) for number in range(20)])
    assert cluster.nameserver.requested == ["orders"]
    assert cluster.brokers[0].journal.bodies == [b"%d" % number for number in range(20)]


@BOTH_PROTOCOLS
async def test_each_message_fails_by_itself(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].verdict = lambda arrival: 13 if arrival.body == b"bad" else 0
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        messages = [Message("orders", body) for body in (b"a", b"bad", b"c")]
        first, second, third = await producer.send_many(messages, return_exceptions=True)
        assert isinstance(second, MessageIllegal)
        assert not isinstance(first, Exception)
        assert not isinstance(third, Exception)
        with pytest.raises(MessageIllegal, match="MESSAGE_ILLEGAL") as raised:
            await producer.send_many(messages)
        assert raised.value.__notes__ == ["1 of 3 messages failed; use return_exceptions=True to see which"]


@BOTH_PROTOCOLS
@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_a_refusal_that_may_pass_is_tried_on_another_broker(
    world: SimulatedWorld, settings: ProducerSettings, code: int
) -> None:
    cluster = await fake_cluster(world, brokers=2)
    first, second = cluster.brokers
    first.verdict = lambda _: code
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        results = await producer.send_many([Message("orders", b"%d" % number) for number in range(8)])
    assert {result.queue.broker_name for result in results} == {"broker-b"}
    assert len(first.journal.bodies) == 4
    assert len(second.journal.bodies) == 8


@BOTH_PROTOCOLS
async def test_a_refusal_for_good_is_raised_at_once(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world, brokers=2)
    for broker in cluster.brokers:
        broker.verdict = lambda _: 29
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        with pytest.raises(BrokerAnswer, match=r"INVALID_PARAMETER \(29\): no \[send .* to orders broker-"):
            await producer.send(Message("orders", b"one"))
    assert len(cluster.bodies) == 1


@BOTH_PROTOCOLS
async def test_after_three_attempts_the_error_lists_all_of_them(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world, brokers=3)
    for broker in cluster.brokers:
        broker.verdict = lambda _: 2
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        with pytest.raises(BrokerAnswer, match=r"for orders was not sent, attempts: 3 in \d+ ms") as raised:
            await producer.send(Message("orders", b"one"))
    assert raised.value.code == ResponseCode.SYSTEM_BUSY
    assert len(cluster.bodies) == 3
    for one, other in zip(cluster.brokers, cluster.brokers[1:], strict=False):
        assert len(one.journal.bodies) + len(other.journal.bodies) >= 1


async def test_a_flush_timeout_is_a_result_or_another_try(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    first, _ = cluster.brokers
    first.verdict = lambda _: 10
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        results = await producer.send_many([Message("orders", b"one") for _ in range(8)])
    assert sum(result.status is SendStatus.FLUSH_DISK_TIMEOUT for result in results) == 4
    settings = ProducerSettings(retry_another_broker_when_not_store_ok=True)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        results = await producer.send_many([Message("orders", b"two") for _ in range(8)])
    assert {(result.status, result.queue.broker_name) for result in results} == {(SendStatus.SEND_OK, "broker-b")}


@BOTH_PROTOCOLS
async def test_a_chosen_queue_is_tried_once(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world, brokers=2)
    cluster.brokers[0].verdict = lambda _: 2
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        with pytest.raises(BrokerAnswer, match="SYSTEM_BUSY"):
            await producer.send(Message("orders", b"one"), queue=MessageQueue("orders", "broker-a", 3))
        with pytest.raises(ClientError, match="isn't that of the queue"):
            await producer.send(Message("orders", b"one"), queue=MessageQueue("bills", "broker-a", 3))
    assert [arrival.queue_id for arrival in cluster.brokers[0].journal.requests[0]] == [3]
    assert cluster.brokers[1].journal.requests == []


@BOTH_PROTOCOLS
async def test_a_batch_lands_in_one_queue_with_an_id_for_each(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        result = await producer.send_batch([Message("orders", b"%d" % number, tags="t") for number in range(3)])
    [arrivals] = cluster.brokers[0].journal.requests
    assert [arrival.body for arrival in arrivals] == [b"0", b"1", b"2"]
    assert result.message_id.split(",") == [parse_properties(each.properties)["UNIQ_KEY"] for each in arrivals]
    assert len(result.offset_message_id.split(",")) == 3


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one"),
        ([Message("a", b"1", delay_level=1)], "delays are not supported"),
        ([Message("a", b"1"), Message("b", b"1")], "the same topic"),
        ([Message("a", b"1"), Message("a", b"1", wait_stored=False)], "wait_stored"),
        ([Message("%RETRY%g", b"1")], "retry topics"),
        ([Message("a", b""), Message("a", b"1")], "empty body"),
        ([Message("a", bytes(3_000_000)), Message("a", bytes(3_000_000))], "split it"),
    ],
)
async def test_what_a_batch_can_not_be(world: SimulatedWorld, messages: list[Message], words: str) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ClientError, match=words):
            await producer.send_batch(messages)


async def test_a_batch_for_a_queue_of_another_topic_is_refused(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ClientError, match="the message's topic orders isn't that of the queue bills"):
            await producer.send_batch([Message("orders", b"1")], queue=MessageQueue("bills", "broker-a", 3))
        for send in (producer.send, producer.send_oneway):
            for queue in (MessageQueue("orders", "broker-a", 3), None):
                with pytest.raises(ClientError, match="a producer sends Message objects"):
                    await send("orders", queue=queue)  # type: ignore[arg-type]
            for unusable in ("orders", MessageQueue("orders", "broker-a", -1)):
                with pytest.raises(ClientError, match="isn't a queue: `queues"):
                    await send(Message("orders", b"1"), queue=unusable)  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="a producer sends Message objects"):
            await producer.send_batch(["orders"], queue=MessageQueue("orders", "broker-a", 3))  # type: ignore[list-item]
    assert cluster.bodies == []


@BOTH_PROTOCOLS
async def test_a_oneway_message_arrives_without_an_answer(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send_oneway(Message("orders", b"one"))
    await world.run_for(ms=10)
    assert [arrival.body for arrival in cluster.brokers[0].journal.oneway] == [b"one"]


@BOTH_PROTOCOLS
async def test_large_bodies_travel_compressed(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world)
    noise = world.random.randbytes(5000)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        for body in (bytes(4096), bytes(4095), noise):
            await producer.send(Message("orders", body))
    large, small, random = (request[0] for request in cluster.brokers[0].journal.requests)
    assert large.sys_flag == 0x301
    assert zlib.decompress(large.body) == bytes(4096)
    assert (small.sys_flag, small.body) == (0, bytes(4095))
    assert (random.sys_flag, random.body) == (0, noise)


@BOTH_PROTOCOLS
@pytest.mark.parametrize(("name", "flag"), [("lz4", 0x101), ("zstd", 0x201), ("zlib", 0x301)])
async def test_the_kind_of_compression_can_be_chosen(
    world: SimulatedWorld, settings: ProducerSettings, name: Literal["lz4", "zstd", "zlib"], flag: int
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, replace(settings, compress_type=name), cluster.machine) as producer:
        await producer.send_many([Message("orders", bytes(9_000))])
    [[large]] = cluster.brokers[0].journal.requests
    assert large.sys_flag == flag
    assert expand(large.body, flag, 9_000) == bytes(9_000)


@BOTH_PROTOCOLS
async def test_a_retry_message_travels_alone_with_its_counts(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world, topic="%RETRY%billing")
    cluster.route("orders")
    retry = Message("%RETRY%billing", b"again")
    retry.system_properties = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "UNIQ_KEY": "ABC"}
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send_many([Message("orders", b"one")])
        results = await producer.send_many([Message("orders", b"one"), retry, Message("orders", b"two")])
    assert results[1].message_id == "ABC"
    [arrival] = next(request for request in cluster.brokers[0].journal.requests if request[0].body == b"again")
    assert arrival.reconsume_times == 3


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("orders", b""), "empty body"),
        (Message("orders", bytes(4 * 1024 * 1024 + 1)), "the limit is 4194304"),
        (Message("or ders", b"1"), "illegal characters"),
        (Message("SCHEDULE_TOPIC_XXXX", b"1"), "forbidden"),
        (Message("orders", b"1", properties={"p": "x" * 32_768}), "the limit is 32767"),
    ],
)
async def test_what_can_not_be_sent_is_refused_before_it_leaves(
    world: SimulatedWorld, message: Message, words: str
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        for _ in range(2):  # With and without a known route.
            with pytest.raises(ClientError, match=words):
                await producer.send(message)
            await producer.send(Message("orders", b"fine"))
    assert cluster.bodies == [b"fine"] * 2


@pytest.mark.parametrize("thing", ["orders", b"12.50", {"topic": "orders"}])
async def test_what_is_no_message_is_refused_with_the_way_to_make_one(world: SimulatedWorld, thing: Any) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        for send in (producer.send(thing), producer.send_many([thing])):
            with pytest.raises(
                ClientError, match=r"a producer sends Message objects, not .*: write Message\(topic, body\)"
            ):
                await send
        await producer.send(Message("orders", b"fine"))
    assert cluster.bodies == [b"fine"]


async def test_a_message_can_be_sent_twice_with_two_ids(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    message = Message("orders", b"one")
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        one, other = await producer.send_many([message, message])
    assert one.message_id != other.message_id


async def test_sending_outside_of_async_with_is_an_error(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    producer = Producer("shop", NAMESRV, machine=cluster.machine)
    with pytest.raises(ClientError, match="use it inside `async with producer`"):
        await producer.send(Message("orders", b"one"))
    async with producer:
        pass
    with pytest.raises(ClientError, match="use it inside `async with producer`"):
        producer.post(Message("orders", b"one"))


async def test_a_cancelled_send_does_not_disturb_the_others(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        first = asyncio.create_task(producer.send(Message("orders", b"1")))
        second = asyncio.create_task(producer.send(Message("orders", b"2")))
        await world.until(lambda: cluster.bodies)
        first.cancel()
        await asyncio.wait([first])
        cluster.brokers[0].release()
        assert (await second).queue_offset == 0
        assert first.cancelled()


async def test_ordered_messages_of_a_queue_leave_one_by_one(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.queues("orders")
        sends = [producer.post(Message("orders", b"%d" % number), queue) for number in range(5)]
        sends.append(producer.post(Message("orders", b"6"), MessageQueue("orders", "broker-a", 1)))
        await asyncio.gather(*sends)
    assert [[each.body for each in request] for request in broker.journal.requests] == [
        [b"0", b"6"],
        [b"1"],
        [b"2"],
        [b"3"],
        [b"4"],
    ]


async def test_an_ordered_message_that_failed_lets_the_next_one_go(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].verdict = lambda arrival: 2 if arrival.body == b"0" else 0
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        sends = [producer.post(Message("orders", b"%d" % number), queue) for number in range(2)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(outcomes[0], BrokerAnswer)
    assert not isinstance(outcomes[1], BaseException)


async def test_ordered_messages_stay_in_order_while_their_route_is_fetched(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        sends = [producer.post(Message("orders", b"0"), queue)]
        producer.client.routes.listeners.append(lambda *_: sends.append(producer.post(Message("orders", b"1"), queue)))
        await world.until(lambda: len(sends) == 2)
        await asyncio.gather(*sends)
    assert cluster.bodies == [b"0", b"1"]


async def test_network_errors_of_an_ordered_send_are_raised(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        queue = (await producer.queues("orders"))[0]
        await world.stop("broker-a")
        with pytest.raises(NetworkError, match=r"attempts: 1 .*refused"):
            await producer.send(Message("orders", b"one"), queue=queue)
