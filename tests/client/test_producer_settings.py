"""Settings of producers, each with another value than its default: what brokers and programs see of it."""

import asyncio
from typing import Any

import pytest

from staticfire.client import ClientSettings, Message, Producer, ProducerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.client.peers import NAMESRV, FakeBroker, FakeCluster, fake_cluster, rocketmq
from tests.client.test_broker_faults import both_fail, brokers_of

A, B = "broker-a", "broker-b"


async def start_again(world: SimulatedWorld) -> None:
    await world.start(A, FakeBroker(world.machine(A), A, "10.0.1.1"))


@pytest.mark.parametrize(("bytes_max", "sizes"), [(50_000, [2, 2, 1]), (1, [1] * 5)], ids=["some", "one"])
async def test_how_many_bytes_share_a_request(world: SimulatedWorld, bytes_max: int, sizes: list[int]) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(gathered_bytes_max=bytes_max, compress_msg_body_over_bytes=1_000_000)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await asyncio.gather(*[producer.send(Message("orders", bytes(20_000))) for _ in range(5)])
        many = await producer.send_many([Message("orders", bytes(20_000)) for _ in range(5)])
    assert len(many) == 5
    assert cluster.brokers[0].journal.sizes == sizes * 2


async def test_how_many_messages_share_a_request(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(gathered_messages_max=10)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await producer.send_many([Message("orders", b"%d" % number) for number in range(25)])
    assert cluster.brokers[0].journal.sizes == [10, 10, 5]


async def test_how_much_effort_goes_into_compression(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    body = b"".join(b"%d;" % (number * number) for number in range(20_000))
    for level in (1, 5, 9):
        async with Producer("shop", NAMESRV, ProducerSettings(compress_level=level), cluster.machine) as producer:
            await producer.send(Message("orders", body))
    sizes = [len(sent) for sent in cluster.bodies]
    assert len(set(sizes)) == 3
    assert sizes[0] == max(sizes) < len(body)


@pytest.mark.parametrize(("token", "is_sent"), [("", False), ("of-a-cloud", True)])
async def test_a_security_token_is_part_of_each_request(world: SimulatedWorld, token: str, is_sent: bool) -> None:
    cluster = await fake_cluster(world)
    client = ClientSettings(protocol="rocketmq", access_key="shop", secret_key="s3cret", security_token=token)
    async with Producer("shop", NAMESRV, ProducerSettings(client=client), cluster.machine) as producer:
        await producer.send(Message("orders", b"first"))
        connection = producer.client.pool.open_connection(cluster.brokers[0].address)
        assert connection is not None
        assert connection.transport is not None
        written = bytearray()
        write = connection.transport.write

        def recorded(data: bytes) -> None:
            written.extend(data)
            write(data)

        connection.transport.write = recorded  # type: ignore[method-assign, assignment]
        await producer.send(Message("orders", b"second"))
        connection.transport.write = write  # type: ignore[method-assign]
    assert b"second" in written
    assert (b'"SecurityToken":"of-a-cloud"' in written) is is_sent


async def test_how_many_requests_are_under_way(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    async with Producer("shop", NAMESRV, ProducerSettings(in_flight_gathered_max=2), cluster.machine) as producer:
        broker.hold = True
        sends = []
        for number in range(10):
            sends.append(producer.post(Message("orders", b"%d" % number)))
            await world.run_for(ms=5)
        assert broker.journal.sizes == [1, 1]
        broker.release()
        await asyncio.gather(*sends)
    assert broker.journal.sizes == [1, 1, 8]


async def test_how_many_single_sends_are_under_way(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    async with Producer("shop", NAMESRV, rocketmq(in_flight_single_max=3), cluster.machine) as producer:
        broker.hold = True
        sends = [producer.post(Message("orders", b"%d" % number)) for number in range(10)]
        await world.run_for(ms=500)
        assert len(broker.journal.bodies) == 3
        broker.release()
        await asyncio.gather(*sends)
    assert broker.journal.bodies == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_how_often_a_refused_message_is_sent_again(world: SimulatedWorld, retries: int) -> None:
    cluster = await fake_cluster(world, brokers=2)
    for broker in cluster.brokers:
        broker.verdict = lambda _: int(ResponseCode.SYSTEM_BUSY)
    settings = ProducerSettings(retry_times_when_send_failed=retries)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        with pytest.raises(StaticfireError, match="SYSTEM_BUSY"):
            await producer.send(Message("orders", b"x"))
    assert len(cluster.bodies) == retries + 1


@pytest.mark.parametrize("avoid_ms", [500, 10_000])
async def test_how_long_an_unreachable_broker_is_avoided(world: SimulatedWorld, avoid_ms: int) -> None:
    cluster = await fake_cluster(world, brokers=2)
    settings = ProducerSettings(client=ClientSettings(avoid_broker_ms=avoid_ms))
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        await brokers_of(producer, 8)
        world.kill(A)
        assert set(await brokers_of(producer, 8)) == {B}
        failed_ms = world.uptime_ms
        await start_again(world)
        await world.run_for(ms=avoid_ms - (world.uptime_ms - failed_ms) - 100)
        assert set(await brokers_of(producer, 8)) == {B}
        await world.run_for(ms=200)
        assert set(await brokers_of(producer, 8)) == {A, B}


@pytest.mark.parametrize(
    ("settings", "answer_ms", "used"),
    [
        ({}, 0, {A, B}),
        ({"detect_interval_ms": 60_000}, 0, {B}),
        ({}, 600, {B}),
        ({"detect_timeout_ms": 2_000}, 600, {A, B}),
    ],
    ids=["checked", "checked seldom", "slow", "slow, with more time"],
)
async def test_when_the_detector_takes_a_broker_for_reachable(
    world: SimulatedWorld, settings: dict[str, int], answer_ms: int, used: set[str]
) -> None:
    """Both brokers are avoided for ten seconds. Meanwhile those that the detector reached are preferred."""
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, detecting(**settings), cluster.machine) as producer:
        began_ms = world.uptime_ms
        await both_fail(world, cluster, producer)
        await world.run_for(ms=4_000 - (world.uptime_ms - began_ms))
        await start_again(world)
        world.set_link("client", A, LinkQuality(delay_ms=answer_ms / 2))
        await world.run_for(ms=3_500)
        assert set(await brokers_of(producer, 4)) == used
        assert world.uptime_ms - began_ms < 10_000


def detecting(**settings: Any) -> ProducerSettings:
    return ProducerSettings(
        client=ClientSettings(client_ip="10.0.2.1"), send_latency_fault_enable=True, start_detector_enable=True,
        **settings,
    )  # fmt: skip


@pytest.mark.parametrize("interval_ms", [5_000, 120_000])
async def test_how_soon_a_new_route_counts(world: SimulatedWorld, interval_ms: int) -> None:
    cluster: FakeCluster = await fake_cluster(world, brokers=2)
    first, second = cluster.brokers
    cluster.route("orders", brokers=[first])
    settings = ProducerSettings(client=ClientSettings(poll_name_server_interval_ms=interval_ms))
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        assert set(await brokers_of(producer, 4)) == {A}
        cluster.route("orders", brokers=[second])
        await world.run_for(ms=interval_ms - 1_000)
        assert set(await brokers_of(producer, 4)) == {A}
        await world.run_for(ms=1_500)
        assert set(await brokers_of(producer, 4)) == {B}
