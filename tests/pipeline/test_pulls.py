"""Reading ahead: a range once and whole, within a bound, whatever happens to the broker."""

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from staticfire import AsyncCluster, Cluster
from staticfire.client import Message, MessageQueue, Producer
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.errors import DataLost, SourceUnreachable
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueEnds, QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.pipeline.stream_plan import StreamPlan
from staticfire.pipeline.survey import find_at, find_ends, find_queues
from staticfire.protocol.record import decode_records

FIRST = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
async def cluster() -> AsyncIterator[AsyncCluster]:
    async with Cluster() as cluster:
        await cluster.create_topic("orders", queues=1)
        yield cluster


async def fill(cluster: AsyncCluster, count: int, body: bytes = b"x") -> SourceOptions:
    async with Producer("tests", cluster.namesrv) as producer:
        for number in range(count):
            await producer.send(Message("orders", b"%d " % number + body), queue=FIRST)
    return SourceOptions(cluster.namesrv, ("orders",))


def offsets_in(bodies: list[bytes]) -> list[int]:
    return [record.queue_offset for body in bodies for record in decode_records(body)]


async def read_all(client: ClusterClient, options: SourceOptions, wanted: QueueRange) -> list[int]:
    pulls = PullAhead(client, options, wanted)
    offsets: list[int] = []
    while (pulled := await pulls.take()) is not None:
        offsets += offsets_in(pulled.bodies)
    return offsets


async def test_range_is_read_once_and_ends_where_it_ends(cluster: AsyncCluster) -> None:
    options = await fill(cluster, 60)
    async with ClusterClient(cluster.namesrv) as client:
        few = replace(options, pull_batch_size=7)
        assert await read_all(client, few, QueueRange(FIRST, 11, 42)) == list(range(11, 42))
        assert await read_all(client, options, QueueRange(FIRST, 0, 60)) == list(range(60))


async def test_what_the_reader_does_not_take_is_bounded(cluster: AsyncCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticfire.pipeline.pulls.AHEAD_BYTES_MAX", 10_000)
    monkeypatch.setattr("staticfire.pipeline.pulls.HANDED_BYTES", 10_000)
    options = replace(await fill(cluster, 40, b"x" * 1_000), pull_batch_size=1)
    async with ClusterClient(cluster.namesrv) as client:
        pulls = PullAhead(client, options, QueueRange(FIRST, 0, 40))
        first = await pulls.take()
        assert first is not None
        assert 8 <= len(first.bodies) <= 11
        await pulls.stop()


async def test_messages_that_are_gone_end_the_read_or_are_left_out(cluster: AsyncCluster) -> None:
    options = await fill(cluster, 10)
    async with ClusterClient(cluster.namesrv) as client:
        with pytest.raises(
            DataLost, match=r"orders broker-a/0: wanted offsets 10 to 15, the broker has 0 to 10; .*false"
        ):
            await read_all(client, options, QueueRange(FIRST, 5, 15))
        lenient = replace(options, fail_on_data_loss=False)
        assert await read_all(client, lenient, QueueRange(FIRST, 5, 15)) == list(range(5, 10))
        assert await read_all(client, lenient, QueueRange(FIRST, 50, 55)) == []


async def test_refused_pull_is_reported_with_the_brokers_words(cluster: AsyncCluster) -> None:
    options = await fill(cluster, 1)
    async with ClusterClient(cluster.namesrv) as client:
        with pytest.raises(
            SourceUnreachable, match=r"orders broker-a/7: the broker rejects offsets 0 to 5: .*queueId\[7\]"
        ):
            await read_all(client, options, QueueRange(FIRST._replace(queue_id=7), 0, 5))


@pytest.mark.slow
async def test_broker_that_is_killed_and_comes_back_is_read_to_the_end() -> None:
    async with Cluster(isolation="process") as cluster:
        await cluster.create_topic("orders", queues=1)
        options = replace(await fill(cluster, 400, Random(1).randbytes(20_000)), pull_batch_size=16)
        async with ClusterClient(cluster.namesrv) as client:
            pulls = PullAhead(client, options, QueueRange(FIRST, 0, 400))
            first = await pulls.take()
            assert first is not None
            broker = cluster.broker("broker-a")
            await broker.kill()
            await broker.restart()
            offsets = offsets_in(first.bodies)
            assert len(offsets) < 400
            while (pulled := await pulls.take()) is not None:
                offsets += offsets_in(pulled.bodies)
        assert offsets == list(range(400))


@pytest.mark.slow
async def test_broker_that_stays_away_is_named_after_a_while() -> None:
    async with Cluster(isolation="process") as cluster:
        await cluster.create_topic("orders", queues=1)
        options = replace(await fill(cluster, 3), reconnect_timeout_ms=300)
        async with ClusterClient(cluster.namesrv) as client:
            await find_queues(client, ["orders"])
            await cluster.kill("broker-a")
            words = (
                r"orders broker-a/0: offsets 0 to 3 can't be read, tried for 300 ms \(reconnectTimeoutMs\): .* running"
            )
            with pytest.raises(SourceUnreachable, match=words):
                await read_all(client, options, QueueRange(FIRST, 0, 3))


async def test_survey_returns_queues_ends_and_moments(cluster: AsyncCluster) -> None:
    await fill(cluster, 5)
    async with ClusterClient(cluster.namesrv) as client:
        queues = await find_queues(client, ["orders"])
        assert queues == [FIRST]
        found = await find_ends(client, queues)
        assert found == {FIRST: QueueEnds(0, 5, newest_ms=found[FIRST].newest_ms)}
        assert 0 < found[FIRST].newest_ms < 2**42
        assert await find_at(client, {FIRST: 0}) == {FIRST: 0}
        assert await find_at(client, {FIRST: 2**42}) == {FIRST: 5}
        with pytest.raises(SourceUnreachable, match="subscribe=nothing: no route to topic nothing"):
            await find_queues(client, ["nothing"])


def test_stream_plan_follows_a_topic_and_stops_at_its_target() -> None:
    from staticfire.pipeline.link import link_to
    from tests.pipeline.stand import offsets_of, send_to

    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        send_to(cluster.namesrv, FIRST, [b"x"] * 10)
        options = SourceOptions(cluster.namesrv, ("orders",), starting_offsets="earliest")
        plan = StreamPlan(options, link_to(options))
        start = plan.initial()
        assert start == {"orders": {"broker-a": {"0": 0, "1": 0}}}
        plan.freeze()
        send_to(cluster.namesrv, FIRST, [b"y"] * 5)
        first = plan.latest(start, 4)
        assert offsets_of(first) == {"orders": {"broker-a": {"0": 4, "1": 0}}}
        assert plan.ranges(start, first) == [QueueRange(FIRST, 0, 4)]
        second = plan.latest(first, None)
        assert second == plan.latest(second, None)
        assert offsets_of(second) == {"orders": {"broker-a": {"0": 10, "1": 0}}}
        fresh = StreamPlan(options, link_to(options))
        assert offsets_of(fresh.latest(second, None)) == {"orders": {"broker-a": {"0": 15, "1": 0}}}
