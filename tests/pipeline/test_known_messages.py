"""A queue with other messages at the offsets that a stream has read: another cluster, or a topic created again."""

import json
from typing import Any, cast

import pytest

from staticfire import Cluster
from staticfire.client import MessageQueue
from staticfire.pipeline.errors import DataLost
from staticfire.pipeline.known_messages import KnownMessages
from staticfire.pipeline.link import ClusterLink, link_to
from staticfire.pipeline.offsets import KnownMessage, from_checkpoint, parse_offsets
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.pipeline.planning import QueueEnds, QueueRange
from staticfire.pipeline.stream_plan import StreamPlan
from tests.pipeline.stand import send_to

pytestmark = pytest.mark.row("E4")

FIRST = MessageQueue("orders", "broker-a", 0)
REFUSED = r"orders broker-a/0: the message at offset \d+ was stored at .*: this is another cluster, or the topic"


def plan_of(cluster: Cluster, **given: str) -> StreamPlan:
    """Return the plan of a query whose process has just begun."""
    known = {"nameServer": cluster.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
    options = parse_options(known | given, {})
    return StreamPlan(options, link_to(options))


def fill(cluster: Cluster, count: int) -> None:
    cluster.create_topic("orders", queues=1)
    send_to(cluster.namesrv, FIRST, [b"%d" % number for number in range(count)])


def refill(cluster: Cluster, count: int) -> None:
    """Make it another cluster, with other messages of a later time."""
    cluster.reset()
    cluster.clock.advance(minutes=1)
    fill(cluster, count)


@pytest.mark.parametrize("protocol", ["staticfire", "rocketmq"])
@pytest.mark.parametrize("limit", [None, 6], ids=["read to its end", "read in part"])
@pytest.mark.parametrize("count", [10, 15])
def test_messages_of_another_cluster_are_refused_or_all_read(protocol: str, limit: int | None, count: int) -> None:
    with Cluster() as cluster:
        fill(cluster, 10)
        plan = plan_of(cluster, protocol=protocol)
        end = plan.latest(plan.initial(), limit)
        assert from_checkpoint(end) == {FIRST: limit or 10}
        again = plan_of(cluster, protocol=protocol)
        assert from_checkpoint(again.latest(end, None)) == {FIRST: 10}
        refill(cluster, count)
        with pytest.raises(DataLost, match=REFUSED):
            plan_of(cluster, protocol=protocol).latest(end, None)
        lenient = plan_of(cluster, protocol=protocol, failOnDataLoss="false")
        new_end = lenient.latest(end, None)
        assert new_end != end
        for each in (lenient, plan_of(cluster, protocol=protocol, failOnDataLoss="false")):
            assert each.ranges(end, new_end) == [QueueRange(FIRST, 0, count)]
        assert lenient.latest(new_end, None) == plan_of(cluster).latest(new_end, None) == new_end


def test_a_limit_counts_messages_of_another_cluster_from_the_first_one() -> None:
    with Cluster() as cluster:
        fill(cluster, 10)
        plan = plan_of(cluster)
        end = plan.latest(plan.initial(), None)
        refill(cluster, 15)
        lenient = plan_of(cluster, failOnDataLoss="false")
        part = lenient.latest(end, 4)
        assert lenient.ranges(end, part) == [QueueRange(FIRST, 0, 4)]
        rest = plan_of(cluster).latest(part, None)
        assert lenient.ranges(part, rest) == [QueueRange(FIRST, 4, 15)]


def test_a_running_query_notices_that_its_topic_was_created_again() -> None:
    with Cluster() as cluster:
        fill(cluster, 10)
        plan = plan_of(cluster)
        end = plan.latest(plan.initial(), None)
        assert plan.latest(end, None) == end
        refill(cluster, 10)
        with pytest.raises(DataLost, match=REFUSED):
            plan.latest(end, None)


def test_a_query_that_began_at_the_latest_knows_the_message_before() -> None:
    with Cluster() as cluster:
        fill(cluster, 10)
        start = plan_of(cluster, startingOffsets="latest").initial()
        refill(cluster, 15)
        with pytest.raises(DataLost, match=REFUSED):
            plan_of(cluster).latest(start, None)


def test_a_checkpoint_of_an_earlier_version_continues_and_then_has_known_messages() -> None:
    with Cluster() as cluster:
        fill(cluster, 10)
        early: dict[str, Any] = {"orders": {"broker-a": {"0": 10}}}
        plan = plan_of(cluster)
        assert plan.latest(early, None) == early
        send_to(cluster.namesrv, FIRST, [b"10"])
        end = plan.latest(early, None)
        assert plan.ranges(early, end) == [QueueRange(FIRST, 10, 11)]
        assert end["*known"]["orders"]["broker-a"]["0"][0] == 10


class NoRequests:
    """A link that must not be used."""

    def ask(self, _: object) -> object:
        raise AssertionError("there was a request")


@pytest.mark.parametrize(
    "there",
    [QueueEnds(30, 40, newest_ms=9), QueueEnds(0, 20), QueueEnds(0, 21, newest_ms=5)],
    ids=["removed by retention", "not there yet", "the newest one"],
)
def test_most_messages_are_known_without_a_request(there: QueueEnds) -> None:
    messages = KnownMessages(SourceOptions("127.0.0.1:1", ("orders",)), cast(ClusterLink, NoRequests()))
    assert messages.foreign({FIRST: KnownMessage(20, 5)}, {FIRST: there}) == set()


def test_a_copied_checkpoint_is_accepted_as_starting_offsets() -> None:
    text = json.dumps({"orders": {"broker-a": {"0": 23}}, "*known": {"orders": {"broker-a": {"0": [22, 5]}}}})
    assert parse_offsets(text).offsets == {FIRST: 23}
