"""A broker that reads no data: the buffer of its connection is full, and sends end at their timeout all the same."""

import asyncio

import pytest

from staticfire.client import Message, Producer, ProducerSettings
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import AnswerTimeout, ConnectFailed, NetworkError
from staticfire.runtime import connection
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.client.peers import BOTH_PROTOCOLS, NAMESRV, FakeCluster, fake_cluster

BODY = bytes(3_000)
TIMEOUT_MS = 1_000


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_BUFFER_BYTES_MAX", 4_000)


def chosen(settings: ProducerSettings, **choices: int) -> ProducerSettings:
    choices = {"send_msg_timeout_ms": TIMEOUT_MS, "compress_msg_body_over_bytes": 1 << 20, **choices}
    return ProducerSettings(client=settings.client, **choices)  # type: ignore[arg-type]


async def narrow_cluster(world: SimulatedWorld, brokers: int = 1) -> FakeCluster:
    """Start brokers that can have little data under way to them."""
    cluster = await fake_cluster(world, brokers)
    for broker in cluster.brokers:
        world.set_link("client", broker.name, LinkQuality(window_bytes=4_000))
    return cluster


async def fill(world: SimulatedWorld, producer: Producer) -> None:
    """Freeze the first broker, and send until its connection takes no more data."""
    await producer.send_many([Message("orders", b"first") for _ in range(8)])
    world.freeze("broker-a")
    for queue_id in range(4):
        sent = producer.post(Message("orders", BODY), MessageQueue("orders", "broker-a", queue_id))
        sent.add_done_callback(lambda failed: failed.exception())
        await world.run_for(ms=1)
    filled = producer.client.pool.open_connection("10.0.1.1:10911")
    assert filled is not None
    assert filled.writable() is not None


@BOTH_PROTOCOLS
async def test_sends_end_at_their_timeout(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await narrow_cluster(world)
    ended_ms: list[int] = []
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await fill(world, producer)
        began_ms, sends = world.uptime_ms, []
        for _ in range(10):
            sends.append(producer.post(Message("orders", BODY)))
            sends[-1].add_done_callback(lambda _: ended_ms.append(world.uptime_ms))
            await world.run_for(ms=100)
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {AnswerTimeout}
    assert "not sent in time: broker-a reads no data" in str(outcomes[-1])
    expected_ms = [began_ms + 100 * number + TIMEOUT_MS for number in range(10)]
    assert all(0 <= ended - expected <= 2 for ended, expected in zip(ended_ms, expected_ms, strict=True))


@BOTH_PROTOCOLS
async def test_a_producer_that_leaves_waits_no_longer_than_the_timeout(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await narrow_cluster(world)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await fill(world, producer)
        late = [producer.post(Message("orders", BODY)) for _ in range(10)]
        began_ms = world.uptime_ms
    unregistering_ms, closing_ms = settings.client.mq_client_api_timeout_ms, 1_000
    assert world.uptime_ms - began_ms < TIMEOUT_MS + unregistering_ms + closing_ms + 10
    assert all(isinstance(one.exception(), NetworkError) for one in late)


@BOTH_PROTOCOLS
async def test_with_a_timeout_per_attempt_sends_go_to_another_broker(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await narrow_cluster(world, brokers=2)
    limited = chosen(settings, send_msg_max_timeout_per_request_ms=300)
    async with Producer("shop", NAMESRV, limited, cluster.machine) as producer:
        await fill(world, producer)
        began_ms = world.uptime_ms
        results = await producer.send_many([Message("orders", BODY) for _ in range(16)])
        assert world.uptime_ms - began_ms < 310
    assert {result.queue.broker_name for result in results} == {"broker-b"}


@BOTH_PROTOCOLS
async def test_ordered_sends_end_one_by_one_and_those_after_them_too(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await narrow_cluster(world)
    queue = MessageQueue("orders", "broker-a", 0)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await fill(world, producer)
        began_ms, sends, ended_ms = world.uptime_ms, [], list[int]()
        for number in range(6):
            sends.append(producer.post(Message("orders", BODY), queue if number % 2 == 0 else None))
            sends[-1].add_done_callback(lambda _: ended_ms.append(world.uptime_ms))
            await world.run_for(ms=50)
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {AnswerTimeout}
    expected_ms = [began_ms + 50 * number + TIMEOUT_MS for number in range(6)]
    assert all(0 <= ended - expected <= 2 for ended, expected in zip(ended_ms, expected_ms, strict=True))


@BOTH_PROTOCOLS
async def test_what_waits_is_sent_when_the_broker_reads_again(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await narrow_cluster(world)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await fill(world, producer)
        late = producer.post(Message("orders", b"late"))
        await world.run_for(ms=600)
        in_time = producer.post(Message("orders", b"in time"))
        await world.run_for(ms=600)
        assert late.done()
        world.thaw("broker-a")
        await in_time
    assert isinstance(late.exception(), AnswerTimeout)
    assert b"in time" in cluster.bodies
    assert b"late" not in cluster.bodies


@BOTH_PROTOCOLS
async def test_a_oneway_send_waits_no_longer_than_the_timeout(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await narrow_cluster(world)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await fill(world, producer)
        began_ms = world.uptime_ms
        with pytest.raises(AnswerTimeout, match="not sent within 1000 ms: broker-a reads no data"):
            await producer.send_oneway(Message("orders", BODY))
        assert world.uptime_ms - began_ms <= TIMEOUT_MS + 2


@BOTH_PROTOCOLS
async def test_a_send_waits_for_a_connection_no_longer_than_its_timeout(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await producer.queues("orders")
        world.partition("client", "broker-a")
        await world.run_for(ms=1)
        began_ms = world.uptime_ms
        with pytest.raises(ConnectFailed, match="not sent in time: no connection to broker-a"):
            await producer.send(Message("orders", b"one"))
        assert world.uptime_ms - began_ms <= TIMEOUT_MS + 2


@BOTH_PROTOCOLS
async def test_a_send_that_is_connected_too_late_doesnt_blame_earlier_requests(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, chosen(settings), cluster.machine) as producer:
        await producer.queues("orders")
        # Connecting takes a round trip, and ends in the last millisecond of the send's time.
        world.set_link("client", "broker-a", LinkQuality(delay_ms=(TIMEOUT_MS - 0.1) / 2))
        await world.run_for(ms=0.5)
        with pytest.raises(ConnectFailed, match=r"was not sent.*not sent in time: broker-a was connected too late"):
            await producer.send(Message("orders", b"one"))
    assert cluster.bodies == []
