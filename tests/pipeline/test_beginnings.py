"""Where a read begins and ends: by queue, by time, and when what it wanted is gone."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from staticfire import Cluster
from staticfire.client import Admin, Message, MessageQueue, Producer
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.batch_plan import plan_batch
from staticfire.pipeline.errors import DataLost, SourceUnreachable
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.pipeline.stream_plan import StreamPlan
from staticfire.pipeline.survey import find_at
from staticfire.protocol.errors import UsageError
from staticfire.protocol.record import decode_records
from staticfire.protocol.requests.upkeep import DeleteExpired
from tests.pipeline.stand import ASK_TIMEOUT_MS, PATIENT, send, send_to

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
KIB = 1 << 10
MESSAGES = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two queues with 3 messages of the first hour and 4 of the second one, each."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        for count in (3, 4):
            for queue in (A0, A1):
                send_to(cluster.namesrv, queue, [b"x"] * count)
            cluster.clock.advance(hours=1)
        yield cluster


def read_options(namesrv: str, **given: object) -> SourceOptions:
    return parse_options(
        {"nameServer": namesrv, "subscribe": "orders"} | {name: str(text) for name, text in given.items()}, {}
    )


def batch(options: SourceOptions) -> list[QueueRange]:
    return link_to(options).ask(lambda client: plan_batch(client, options))


def test_queues_begin_and_end_each_at_its_own_time(cluster: Cluster) -> None:
    now_ms = cluster.clock.now().message_ms
    first_hour, later = now_ms - 5_400_000, now_ms - 1_800_000

    def of(queue_id: int, stored_ms: int) -> str:
        return f'{{"orders":{{"broker-a":{{"{queue_id}":{stored_ms}}}}}}}'

    starting = read_options(cluster.namesrv, startingOffsetsByTimestamp=of(1, first_hour))
    assert batch(starting) == [QueueRange(A0, 0, 7), QueueRange(A1, 3, 7)]
    ending = read_options(cluster.namesrv, endingOffsetsByTimestamp=of(0, first_hour), startingOffsets="earliest")
    assert batch(ending) == [QueueRange(A0, 0, 3), QueueRange(A1, 0, 7)]
    of_all = read_options(
        cluster.namesrv, startingTimestamp=first_hour, startingOffsetsByTimestamp=of(0, 0), endingTimestamp=later
    )
    assert batch(of_all) == [QueueRange(A0, 3, 7), QueueRange(A1, 3, 7)]
    stream = StreamPlan(starting, link_to(starting))
    assert stream.initial() == {"orders": {"broker-a": {"0": 0, "1": 3}}}
    late = read_options(cluster.namesrv, startingOffsetsByTimestamp=of(1, later))
    assert batch(late) == [QueueRange(A0, 0, 7)]
    strict = read_options(
        cluster.namesrv, startingOffsetsByTimestamp=of(1, later), startingOffsetsByTimestampStrategy="error"
    )
    with pytest.raises(UsageError, match=rf"orders broker-a/1 has no message stored at {later} or later, and starting"):
        batch(strict)
    with pytest.raises(
        UsageError, match=r"startingOffsetsByTimestamp=.*: there is no queue orders broker-a/9; orders has"
    ):
        batch(read_options(cluster.namesrv, startingOffsetsByTimestamp=of(9, later)))


@pytest.mark.parametrize("given", ["startingTimestamp", "endingTimestamp"])
def test_messages_that_come_while_a_batch_is_planned_are_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, A0, [b"x"] * 7)

        async def find_at_last(client: ClusterClient, times: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
            await asyncio.to_thread(send_to, cluster.namesrv, A0, [b"late"] * 3)
            return await find_at(client, times)

        monkeypatch.setattr("staticfire.pipeline.batch_plan.find_at", find_at_last)
        tomorrow_ms = cluster.clock.now().message_ms + 86_400_000
        planned = batch(read_options(cluster.namesrv, **{given: tomorrow_ms}))
        assert planned == ([] if given == "startingTimestamp" else [QueueRange(A0, 0, 7)])


def test_batch_that_begins_out_of_range_fails_or_reads_what_there_is(cluster: Cluster) -> None:
    options = read_options(cluster.namesrv, startingOffsets='{"orders":{"broker-a":{"0":50,"1":7}}}')
    with pytest.raises(
        DataLost, match="orders broker-a/0: wanted offset 50 and all that follow, the broker has 0 to 7"
    ):
        batch(options)
    assert batch(replace(options, fail_on_data_loss=False)) == [QueueRange(A0, 0, 7)]


def test_stream_that_begins_out_of_range_fails_or_reads_what_there_is(cluster: Cluster) -> None:
    options = read_options(cluster.namesrv, startingOffsets='{"orders":{"broker-a":{"0":50,"1":2}}}')
    plan = StreamPlan(options, link_to(options))
    start = plan.initial()
    assert start == {"orders": {"broker-a": {"0": 50, "1": 2}}}
    with pytest.raises(
        DataLost, match="orders broker-a/0: wanted offset 50 and all that follow, the broker has 0 to 7"
    ):
        plan.ranges(start, plan.latest(start, None))
    lenient = StreamPlan(replace(options, fail_on_data_loss=False), link_to(options))
    assert lenient.ranges(start, lenient.latest(start, None)) == [QueueRange(A0, 0, 7), QueueRange(A1, 2, 7)]


def test_missing_topic_is_reported_and_not_created_whether_brokers_create_topics_or_not(cluster: Cluster) -> None:
    with Cluster(settings={"autoCreateTopicEnable": False}) as strict:
        for namesrv in (cluster.namesrv, strict.namesrv):
            options = replace(read_options(namesrv), topics=("nothing",))
            for look in (lambda of: batch(of), lambda of: StreamPlan(of, link_to(of)).initial()):
                with pytest.raises(SourceUnreachable, match="subscribe=nothing: no route to topic nothing"):
                    look(options)


def test_topic_that_is_deleted_before_it_is_read_is_a_loss() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, A0, [b"1"])

        async def read(client: ClusterClient, options: SourceOptions) -> object:
            return await PullAhead(client, options, QueueRange(A0, 0, 1)).take()

        async def delete() -> None:
            async with Admin(cluster.namesrv) as admin:
                await admin.delete_topic("orders")

        asyncio.run(delete())
        strict, lenient = (
            read_options(cluster.namesrv, reconnectTimeoutMs=1, failOnDataLoss=fails) for fails in (True, False)
        )
        with pytest.raises(
            DataLost, match=r"orders broker-a/0: wanted offsets 0 to 1, and the topic no longer exists: "
        ):
            link_to(strict).ask(lambda client: read(client, strict))
        assert link_to(lenient).ask(lambda client: read(client, lenient)) is None


def test_damaged_messages_are_passed_over_and_all_others_come_once_in_order(tmp_path: Path) -> None:
    count, damaged = 400, (0, 17, 30, 31, 32, 33, 34, 35, 36, 37, 200, 398)
    with Cluster(directory=tmp_path) as cluster:
        cluster.create_topic("orders", queues=1)
        send(cluster.namesrv, [Message("orders", b"<number %d>" % number) for number in range(count)])
    (log,) = (file for file in tmp_path.rglob("commitlog/*") if b"<number 0>" in file.read_bytes())
    stored = log.read_bytes()
    for number in damaged:
        stored = stored.replace(b"<number %d>" % number, b"[number %d]" % number)
    log.write_bytes(stored)
    with Cluster(directory=tmp_path) as cluster:
        options = read_options(cluster.namesrv, pullBatchSize=5, pullsInFlight=3)

        async def read(client: ClusterClient) -> list[int]:
            pulls = PullAhead(client, options, QueueRange(A0, 0, count - 10))
            offsets: list[int] = []
            while (taken := await pulls.take()) is not None:
                offsets += offsets_in(taken.bodies)
            return offsets

        left = [number for number in range(count) if number not in damaged]
        read_offsets = link_to(options).ask(read)
        assert read_offsets == left[: len(read_offsets)]
        assert read_offsets[-1] >= count - 11


def offsets_in(bodies: list[bytes]) -> list[int]:
    return [record.queue_offset for body in bodies for record in decode_records(body)]


@pytest.mark.parametrize("fails", [True, False])
def test_retention_that_overtakes_the_reader(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task has read a part of its range when the segments of the rest go, but for the newest."""
    monkeypatch.setattr("staticfire.pipeline.pulls.AHEAD_BYTES_MAX", 1)
    monkeypatch.setattr("staticfire.pipeline.pulls.HANDED_BYTES", 1)
    small = {"mappedFileSizeCommitLog": 64 * KIB, "fileReservedTime": 0}
    with Cluster(settings=small, directory=tmp_path) as cluster:
        cluster.create_topic("orders", queues=1)
        fill(cluster)
    # What a broker has not on its disk with all its queue entries is kept: a stop puts it there.
    with Cluster(settings=small, directory=tmp_path) as cluster:
        options = read_options(cluster.namesrv, pullBatchSize=1, failOnDataLoss=fails)

        async def read(client: ClusterClient) -> list[int]:
            pulls = PullAhead(client, options, QueueRange(A0, 0, MESSAGES))
            first = await pulls.take()
            assert first is not None
            offsets = offsets_in(first.bodies)
            await client.pool.ask(cluster.addresses["broker-a"], DeleteExpired(), ASK_TIMEOUT_MS)
            while (taken := await pulls.take()) is not None:
                offsets += offsets_in(taken.bodies)
            return offsets

        link = link_to(options)
        plan = StreamPlan(options, link)
        start = {"orders": {"broker-a": {"0": 0}}}
        end = plan.latest(start, None)
        again = StreamPlan(options, link)  # as after a restart
        if fails:
            with pytest.raises(DataLost, match=r"wanted offsets \d to 12, the broker has [369] to 12; .*retention"):
                link.ask(read)
            with pytest.raises(DataLost, match=r"orders broker-a/0: wanted offsets 0 to 12, the broker has 9 to 12"):
                again.ranges(start, end)
        else:
            offsets = link.ask(read)
            assert offsets == sorted(set(offsets))
            assert (offsets[0], offsets[-3:]) == (0, [9, 10, 11])
            assert len(offsets) < MESSAGES
            assert again.ranges(start, end) == [QueueRange(A0, 9, 12)]


def fill(cluster: Cluster) -> None:
    """Send messages that don't get smaller, three to a segment."""
    body = Random(1).randbytes(16 * KIB)

    async def run() -> None:
        async with Producer("tests", cluster.namesrv, PATIENT) as producer:
            for _ in range(MESSAGES):
                await producer.send(Message("orders", body), queue=A0)

    asyncio.run(run())
