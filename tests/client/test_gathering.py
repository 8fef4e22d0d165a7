"""How sends of a moment share requests, and how they don't."""

import asyncio

import pytest

from staticfire.client import Message, Producer, ProducerSettings
from staticfire.protocol.errors import AnswerTimeout, ClientError, UsageError
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import BOTH_PROTOCOLS, NAMESRV, fake_cluster, rocketmq


def numbered(count: int, size: int = 0) -> list[Message]:
    return [Message("orders", b"%d" % number + bytes(size)) for number in range(count)]


async def test_sends_of_one_tick_leave_in_two_halves_so_that_both_sides_work(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many(numbered(1))
        await asyncio.gather(*[producer.send(message) for message in numbered(100)])
    assert cluster.brokers[0].journal.sizes == [1, 50, 50]


async def test_a_few_sends_of_one_tick_leave_in_one_request(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many(numbered(31))
    assert cluster.brokers[0].journal.sizes == [31]


async def test_a_request_holds_128_messages_at_most(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many(numbered(300))
    assert cluster.brokers[0].journal.sizes == [128, 128, 44]
    assert cluster.bodies == [message.body for message in numbered(300)]


async def test_a_request_holds_256_kib_at_most_but_one_message_always_fits(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(compress_msg_body_over_bytes=8 * 1024 * 1024)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send_many(numbered(5, size=100_000))
        await producer.send(Message("orders", bytes(4 * 1024 * 1024)))
    assert cluster.brokers[0].journal.sizes == [2, 2, 1, 1]


async def test_while_the_window_is_full_sends_gather(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        broker.hold = True
        sends = []
        for message in numbered(20):
            sends.append(producer.post(message))
            await world.run_for(ms=1)
        assert broker.journal.sizes == [1, 1, 1, 1, 1]
        broker.release()
        await asyncio.gather(*sends)
    assert broker.journal.sizes == [1, 1, 1, 1, 1, 16]
    assert broker.journal.bodies[1:] == [b"%d" % number for number in range(20)]


async def test_messages_of_a_queue_stay_in_call_order_with_any_window(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await asyncio.gather(*[producer.send(message) for message in numbered(1000)])
    for broker in cluster.brokers:
        for arrivals in broker.stored.values():
            numbers = [int(arrival.body) for arrival in arrivals]
            assert numbers == sorted(numbers)


async def test_a_batch_keeps_its_place_between_other_messages(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("orders", queues=1)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await asyncio.gather(
            producer.send(Message("orders", b"1")),
            producer.send(Message("orders", b"2")),
            producer.send_batch([Message("orders", b"3"), Message("orders", b"4")]),
            producer.send(Message("orders", b"5")),
        )
    assert cluster.bodies == [b"1", b"2", b"3", b"4", b"5"]


async def test_messages_of_several_topics_share_a_request(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.route("bills")
    messages = [Message("orders", b"1"), Message("bills", b"2")]
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many(messages)
        await producer.send_many(messages)
    last = cluster.brokers[0].journal.requests[-1]
    assert [(arrival.topic, arrival.body) for arrival in last] == [("orders", b"1"), ("bills", b"2")]


async def test_rocketmqs_brokers_get_a_request_for_each_message(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, rocketmq(), cluster.machine) as producer:
        await producer.send_many(numbered(50))
    assert cluster.brokers[0].journal.sizes == [1] * 50
    assert cluster.bodies == [message.body for message in numbered(50)]


@BOTH_PROTOCOLS
async def test_requests_of_a_moment_share_one_write(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        connection = producer.client.pool.open_connection(cluster.brokers[0].address)
        assert connection is not None
        assert connection.transport is not None
        writes: list[int] = []
        write = connection.transport.write

        def counted(data: bytes) -> None:
            writes.append(len(data))
            write(data)

        connection.transport.write = counted  # type: ignore[method-assign, assignment]
        await producer.send_many(numbered(50))
        connection.transport.write = write  # type: ignore[method-assign]
    assert len(writes) == (1 if settings.client.protocol == "rocketmq" else 2)


async def test_send_waits_when_too_much_is_under_way_and_post_refuses(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    settings = ProducerSettings(pending_messages_max=10)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        broker.hold = True
        sends = [asyncio.create_task(producer.send(message)) for message in numbered(25)]
        await world.run_for(ms=10)
        assert len(broker.journal.bodies) == 11
        with pytest.raises(ClientError, match=r"10 messages with \d+ bytes are in flight, which is the limit"):
            producer.post(Message("orders", b"more"))
        broker.release()
        results = await asyncio.gather(*sends)
    assert len(results) == 25
    assert broker.journal.bodies[1:] == [b"%d" % number for number in range(25)]


async def test_a_send_that_is_refused_leaves_its_room_to_the_next(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    settings = ProducerSettings(pending_messages_max=1, max_message_size_bytes=1_000)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        broker.hold = True
        sends = [asyncio.create_task(producer.send(Message("orders", b"under way")))]
        refused = asyncio.create_task(producer.send(Message("orders", bytes(2_000))))
        sends += [asyncio.create_task(producer.send(message)) for message in numbered(3)]
        await world.run_for(ms=10)
        broker.release()
        with pytest.raises(ClientError):
            await refused
        _, late = await asyncio.wait(sends, timeout=10)
        assert not late
    assert broker.journal.bodies == [b"first", b"under way", b"0", b"1", b"2"]


async def test_send_many_continues_as_there_is_room(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(pending_bytes_max=3000)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        results = await producer.send_many(numbered(20, size=744))
    assert len(results) == 20
    assert max(cluster.brokers[0].journal.sizes) <= 4


async def test_messages_that_could_not_leave_in_time_are_reported(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    settings = ProducerSettings(send_msg_timeout_ms=100, retry_times_when_send_failed=0, in_flight_gathered_max=1)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        broker.hold = True
        stuck = producer.post(Message("orders", b"stuck"))
        await world.run_for(ms=1)
        behind = producer.post(Message("orders", b"behind"))
        with pytest.raises(AnswerTimeout, match=r"no response to SEND_MANY from \S+ within 100 ms"):
            await stuck
        with pytest.raises(AnswerTimeout, match="no response to SEND_MANY"):
            await behind
        assert broker.journal.bodies == [b"first", b"stuck", b"behind"]


def test_limits_are_checked_when_they_are_set() -> None:
    with pytest.raises(UsageError, match="pending_messages_max=100000 is out of range: 1 to 65536"):
        ProducerSettings(pending_messages_max=100_000)
