"""`send_many`: messages leave in bundles, and each has its own result all the same."""

import asyncio
from collections.abc import Iterator

import pytest

from staticfire.client import Message, MessageQueue, Producer, ProducerSettings, SendResult, SendStatus
from staticfire.protocol.errors import BrokerAnswer, ClientError, MessageIllegal, NetworkError, TopicNotFound
from staticfire.protocol.properties import find_property
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, FakeCluster, fake_cluster


def numbered(count: int, topic: str = "orders") -> list[Message]:
    return [Message(topic, b"%d" % number, tags="paid", keys=f"{number}") for number in range(count)]


def ok(outcome: SendResult | Exception) -> SendResult:
    assert isinstance(outcome, SendResult), outcome
    return outcome


def in_order(cluster: FakeCluster) -> bool:
    """Whether each queue has its messages in the order of their numbers."""
    queues = [queue for broker in cluster.brokers for queue in broker.stored.values()]
    return all([*numbers] == sorted(numbers) for queue in queues if (numbers := [int(each.body) for each in queue]))


async def known(producer: Producer) -> None:
    """Have the producer know the route, so that nothing has to wait for it."""
    await producer.queues("orders")


async def test_results_say_where_each_message_is(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        results = await producer.send_many(numbered(1_000))
    stored = {broker.name: broker.stored for broker in cluster.brokers}
    for number, result in enumerate(results):
        assert result.status is SendStatus.SEND_OK
        arrival = stored[result.queue.broker_name]["orders", result.queue.queue_id][result.queue_offset]
        assert arrival.body == b"%d" % number
        assert find_property(arrival.properties, "UNIQ_KEY") == result.message_id.encode()
        assert result.log_position == result.queue_offset * 1000
    assert len({result.message_id for result in results}) == 1_000
    assert {len(queue) for queues in stored.values() for queue in queues.values()} == {125}
    assert in_order(cluster)


async def test_bundles_hold_128_messages_but_the_first_which_is_to_leave_early(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        await producer.send_many(numbered(300))
        await producer.send_many(numbered(20))
        assert await producer.send_many([]) == []
    assert cluster.brokers[0].journal.sizes == [32, 128, 128, 12, 20]


async def test_what_is_compressed_keeps_its_place_in_its_bundle(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("orders", queues=1)
    messages = numbered(9)
    messages[4] = Message("orders", b"4" * 10_000)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        await producer.send_many(messages)
    (request,) = cluster.brokers[0].journal.requests
    assert [arrival.sys_flag != 0 for arrival in request] == [number == 4 for number in range(9)]
    assert [arrival.body for arrival in request][3::2] == [b"3", b"5", b"7"]


async def test_topics_without_a_route_delay_no_other(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("bills")
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        messages = [Message(topic, b"1") for topic in ("orders", "nowhere", "bills", "orders")] * 100
        outcomes = await producer.send_many(messages, return_exceptions=True)
    for message, outcome in zip(messages, outcomes, strict=True):
        assert isinstance(outcome, TopicNotFound if message.topic == "nowhere" else SendResult)
    assert len(cluster.bodies) == 300


async def test_what_can_not_be_sent_is_that_messages_own_failure(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    messages = numbered(5)
    messages[1] = Message("orders", b"")
    messages[3] = Message("orders", b"x", properties={"long": "v" * 40_000})
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        outcomes = await producer.send_many(messages, return_exceptions=True)
        with pytest.raises(ClientError, match="empty body") as raised:
            await producer.send_many(messages)
    assert [isinstance(outcome, ClientError) for outcome in outcomes] == [False, True, False, True, False]
    assert raised.value.__notes__ == ["2 of 5 messages failed; use return_exceptions=True to see which"]
    assert cluster.bodies == [b"0", b"2", b"4"] * 2


async def test_refused_messages_are_tried_on_another_broker_or_fail_alone(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    first, second = cluster.brokers
    first.verdict = lambda arrival: 14 if int(arrival.body) % 3 == 0 else 0
    second.verdict = lambda arrival: 13 if arrival.body == b"7" else 0
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        outcomes = await producer.send_many(numbered(60), return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, MessageIllegal):
            assert number == 7
        elif number % 3 == 0:
            assert ok(outcome).queue.broker_name == "broker-b"
    stored = [arrival.body for broker in cluster.brokers for queue in broker.stored.values() for arrival in queue]
    failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
    assert len(stored) == len(set(stored)) == 60 - failed


async def test_a_result_that_is_less_than_promised_is_reported(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].verdict = lambda arrival: 10 if arrival.body == b"2" else 0
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        results = await producer.send_many(numbered(4))
    assert [result.status is SendStatus.FLUSH_DISK_TIMEOUT for result in results] == [False, False, True, False]


async def test_a_whole_request_that_is_refused_fails_each_with_an_exception_of_its_own(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(retry_times_when_send_failed=0)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await known(producer)
        cluster.brokers[0].refuses_many = True
        outcomes = await producer.send_many(numbered(3), return_exceptions=True)
    assert all(isinstance(outcome, BrokerAnswer) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 3


async def test_messages_under_way_when_their_broker_dies_go_to_another_one(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        cluster.brokers[0].hold = True
        sending = asyncio.create_task(producer.send_many(numbered(500)))
        await world.until(lambda: len(cluster.brokers[0].journal.bodies) >= 32)
        world.kill("broker-a")
        results = await sending
    stored = {arrival.body for queue in cluster.brokers[1].stored.values() for arrival in queue}
    assert {result.queue.broker_name for result in results} == {"broker-b"}
    assert stored == {message.body for message in numbered(500)}


async def test_no_more_is_under_way_than_the_limits_allow(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    taken = 0

    def messages() -> Iterator[Message]:
        nonlocal taken
        for message in numbered(100):
            taken += 1
            yield message

    settings = ProducerSettings(pending_messages_max=10)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await known(producer)
        broker.hold = True
        sending = asyncio.create_task(producer.send_many(messages()))
        await world.run_for(ms=100)
        assert len(broker.journal.bodies) == 10
        assert taken == 10
        broker.release()
        assert len(await sending) == 100
    assert max(broker.journal.sizes) == 10


async def test_a_send_many_that_begins_when_all_is_full_waits(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    settings = ProducerSettings(pending_messages_max=2)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await known(producer)
        broker.hold = True
        posted = [producer.post(message) for message in numbered(2)]
        sending = asyncio.create_task(producer.send_many(numbered(3)))
        await world.run_for(ms=100)
        assert len(broker.journal.bodies) == 2
        broker.release()
        await asyncio.gather(*posted, sending)
    assert len(cluster.bodies) == 5


async def test_one_that_is_cancelled_leaves_nothing_behind(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(pending_messages_max=300)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await known(producer)
        cluster.brokers[0].hold = True
        sending = asyncio.create_task(producer.send_many(numbered(1_000)))
        await world.run_for(ms=10)
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        cluster.brokers[0].release()
        await producer.send_many(numbered(600))
    assert len(cluster.bodies) == 900


async def test_an_iterable_that_raises_takes_nothing_with_it(world: SimulatedWorld) -> None:
    def messages() -> Iterator[Message]:
        yield from numbered(5)
        raise LookupError("no more")

    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, ProducerSettings(pending_messages_max=6), cluster.machine) as producer:
        await known(producer)
        for _ in range(3):
            with pytest.raises(LookupError):
                await producer.send_many(messages())
        assert len(await producer.send_many(numbered(6))) == 6


async def test_a_producer_that_closes_meanwhile_takes_no_more(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    producer = Producer("shop", NAMESRV, ProducerSettings(pending_messages_max=10), cluster.machine)
    async with producer:
        await known(producer)
        cluster.brokers[0].hold = True
        sending = asyncio.create_task(producer.send_many(numbered(100)))
        await world.run_for(ms=10)
        world.loop.call_later(1, cluster.brokers[0].release)
    with pytest.raises(ClientError, match="isn't open"):
        await sending
    assert len(cluster.bodies) == 10


async def test_no_answer(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        outcomes = await producer.send_many(numbered(1_000), return_exceptions=True)
    assert all(isinstance(outcome, NetworkError) for outcome in outcomes)
    assert world.uptime_ms < 3_500


async def test_messages_stand_behind_an_ordered_one_of_their_queue(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("orders", queues=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await known(producer)
        ordered = [producer.post(Message("orders", b"%d" % n), MessageQueue("orders", "broker-a", 0)) for n in (-2, -1)]
        await producer.send_many(numbered(100))
        await asyncio.gather(*ordered)
    assert in_order(cluster)
    assert len(cluster.bodies) == 102


async def test_several_at_once_share_the_producer(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, ProducerSettings(pending_messages_max=100), cluster.machine) as producer:
        await known(producer)
        every = await asyncio.gather(*[producer.send_many(numbered(333)) for _ in range(4)])
    assert [len(results) for results in every] == [333] * 4
    assert len(cluster.bodies) == 4 * 333
