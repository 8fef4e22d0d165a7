"""What a stream plans while brokers come and go. No Spark."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from staticfire import Cluster
from staticfire.client import Admin, MessageQueue
from staticfire.pipeline.batch_plan import Survey
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.link import ClusterLink, link_to
from staticfire.pipeline.options import parse_options
from staticfire.pipeline.planning import QueueEnds, QueueRange
from staticfire.pipeline.stream_plan import StreamPlan
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logged_to
from tests.pipeline.stand import offsets_of, send_to, set_queues

FIRST = MessageQueue("orders", "broker-a", 0)


def test_a_topic_whose_only_broker_starts_again_is_waited_for() -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, FIRST, [b"1"])
        given = {"nameServer": cluster.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
        options = parse_options(given | {"reconnectTimeoutMs": "300"}, {})
        plan = StreamPlan(options, link_to(options))
        start = plan.initial()
        end = plan.latest(start, None)
        cluster.broker("broker-a").kill()
        with pytest.raises(SourceUnreachable, match=r"tried for 300 ms \(reconnectTimeoutMs\)"):
            plan.latest(end, None)
        cluster.broker("broker-a").restart()
        send_to(cluster.namesrv, FIRST, [b"2"])
        assert offsets_of(plan.latest(end, None)) == {"orders": {"broker-a": {"0": 2}}}


def stream_plan(cluster: Cluster) -> StreamPlan:
    """Return the plan of a query from the earliest message on, as its process has just begun."""
    given = {"nameServer": cluster.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
    options = parse_options(given, {})
    return StreamPlan(options, link_to(options))


def test_a_limit_counts_what_a_new_queue_still_has(tmp_path: Path) -> None:
    """Its first messages were too old, and are gone when the query reads it for the first time."""
    settings = {"mappedFileSizeCommitLog": 16_384}
    new = FIRST._replace(queue_id=1)
    with Cluster(directory=tmp_path, settings=settings) as cluster:
        cluster.create_topic("orders", queues=1)
        start = stream_plan(cluster).initial()
        set_queues(cluster.namesrv, cluster.addresses["broker-a"], "orders", 2)
        send_to(cluster.namesrv, new, [bytes(3_000)] * 30)
    with Cluster(directory=tmp_path, settings=settings) as cluster:  # All that was sent is on the disk.
        cluster.clock.advance(hours=100)
        send_to(cluster.namesrv, new, [b"young"] * 10)
        plan = stream_plan(cluster)
        end = plan.latest(start, 5)
        (wanted,) = plan.ranges(start, end)
        assert (wanted.queue, wanted.size) == (new, 5)
        assert wanted.start > 5


def plan_of(cluster: Cluster, **given: str) -> StreamPlan:
    """Return the plan of a query from the earliest messages on, which waits 300 ms for what is away."""
    known = {"nameServer": cluster.namesrv, "startingOffsets": "earliest", "reconnectTimeoutMs": "300"}
    options = parse_options(known | given, {})
    return StreamPlan(options, link_to(options))


def delete(cluster: Cluster, topic: str) -> None:
    async def run() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.delete_topic(topic)

    asyncio.run(run())


def ends(orders: int, bills: int) -> dict[str, dict[str, dict[str, int]]]:
    return {"bills": {"broker-a": {"0": bills}}, "orders": {"broker-a": {"0": orders}}}


def test_a_topic_that_is_deleted_between_two_requests_for_routes_no_longer_matches_a_pattern() -> None:
    with Cluster() as cluster:
        for topic in ("orders", "bills"):
            cluster.create_topic(topic, queues=1)
            send_to(cluster.namesrv, FIRST._replace(topic=topic), [b"1"])
        plan = plan_of(cluster, subscribePattern=".*")
        end = plan.latest(plan.initial(), None)
        delete(cluster, "bills")
        assert plan.latest(end, None) == end
        assert offsets_of(end) == ends(orders=1, bills=1)
        send_to(cluster.namesrv, FIRST, [b"2"])
        assert offsets_of(plan.latest(end, None)) == ends(orders=2, bills=1)


def test_failondataloss_decides_about_a_deleted_topic_when_it_was_away_for_too_long() -> None:
    with Cluster() as cluster:
        for topic in ("orders", "bills"):
            cluster.create_topic(topic, queues=1)
            send_to(cluster.namesrv, FIRST._replace(topic=topic), [b"1"])
        strict = plan_of(cluster, subscribe="orders,bills")
        lenient = plan_of(cluster, subscribe="orders,bills", failOnDataLoss="false")
        end = strict.latest(strict.initial(), None)
        assert lenient.latest(end, None) == end
        assert offsets_of(end) == ends(orders=1, bills=1)
        delete(cluster, "bills")
        send_to(cluster.namesrv, FIRST, [b"2"])
        with pytest.raises(SourceUnreachable, match=r"no route to topic bills .* tried for 300 ms"):
            strict.latest(end, None)
        restarted = plan_of(cluster, subscribe="orders,bills", failOnDataLoss="false")
        for plan in (lenient, restarted):
            assert offsets_of(plan.latest(end, None)) == ends(orders=2, bills=1)


def test_a_restarted_query_warns_once_of_queues_that_the_topic_no_longer_has() -> None:
    """Their messages aren't read, until the topic has these queues again."""
    lines: list[tuple[str, object]] = []
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=3)
        for queue_id in range(3):
            send_to(cluster.namesrv, FIRST._replace(queue_id=queue_id), [b"1", b"2"])
        first = stream_plan(cluster)
        end = first.latest(first.initial(), 3)
        set_queues(cluster.namesrv, cluster.addresses["broker-a"], "orders", 1)
        with logged_to(lambda _, event, fields: lines.append((event, fields.get("queue")))):
            restarted = stream_plan(cluster)
            restarted.freeze()
            for _ in range(2):
                end = restarted.latest(end, None)
        assert offsets_of(end) == {"orders": {"broker-a": {"0": 2, "1": 1, "2": 1}}}
        set_queues(cluster.namesrv, cluster.addresses["broker-a"], "orders", 3)
        assert offsets_of(stream_plan(cluster).latest(end, None)) == {"orders": {"broker-a": {"0": 2, "1": 2, "2": 2}}}
    gone = [queue for event, queue in lines if event == "queue_gone"]
    assert gone == ["orders broker-a/1", "orders broker-a/2"]


class SlaveAlone:
    """The link to a cluster whose master is away. Its slave lacks the last five of ten messages."""

    def ask(self, _: object) -> Survey:
        return {FIRST: QueueEnds(0, 5, has_master=False, newest_ms=1)}

    def uptime_ms(self) -> UptimeMs:
        return UptimeMs(0)

    def pause(self, _: int) -> None:
        """Don't wait."""


@pytest.mark.parametrize("is_frozen", [False, True], ids=["running", "available now"])
def test_a_slave_that_lacks_messages_is_no_loss_and_takes_no_offset_back(is_frozen: bool) -> None:
    options = parse_options({"nameServer": "127.0.0.1:9876", "subscribe": "orders"}, {})
    plan = StreamPlan(options, cast(ClusterLink, SlaveAlone()))
    if is_frozen:
        plan.freeze()
    for offset, end in ((10, 10), (3, 5)):
        start = {"orders": {"broker-a": {"0": offset}}}
        assert plan.latest(start, None) == plan.latest(start, 100)
        assert offsets_of(plan.latest(start, None)) == {"orders": {"broker-a": {"0": end}}}
        assert plan.ranges(start, plan.latest(start, None)) == [QueueRange(FIRST, 3, 5)] * (offset < end)
