"""Which messages are read: by expression, by pattern. The broker chooses; offsets go on over what it leaves out."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from staticfire import Cluster
from staticfire.client import Admin, Message, MessageQueue
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.pipeline.batch_plan import plan_batch
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.expressions import parse_expression
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import SourceOptions, parse_options
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.pipeline.stream_plan import StreamPlan
from staticfire.pipeline.topic_pattern import TopicPattern
from staticfire.protocol.errors import UsageError
from staticfire.protocol.record import decode_records
from tests.pipeline.stand import offsets_of, send, send_to
from tests.protocol.rocketmq_answers import split_rocketmq
from tests.protocols import PROTOCOLS

COUNT = 300


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        sent = [
            Message("orders", b"x", tags=f"tag-{n % 7}", properties={"price": str(n), "region": ("eu", "us")[n % 2]})
            for n in range(COUNT)
        ]
        send(cluster.namesrv, sent)
        yield cluster.namesrv


def queue(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-a", 0)


def travelled(options: SourceOptions, wanted: QueueRange) -> list[int]:
    """Return the offsets that a broker sends, in order."""

    async def read(client: ClusterClient) -> list[int]:
        pulls = PullAhead(client, options, wanted)
        offsets: list[int] = []
        while (taken := await pulls.take()) is not None:
            for body in taken.bodies:
                is_native = options.protocol == "staticfire"
                records = decode_records(body) if is_native else [record for record, _ in split_rocketmq(body)]
                offsets += [record.queue_offset for record in records]
        return offsets

    return link_to(options).ask(read)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("tag-1 || tag-3", lambda number: number % 7 in (1, 3)),
        ("price > 290 AND region = 'eu'", lambda number: number > 290 and number % 2 == 0),
        ("TAGS = 'tag-2' OR price BETWEEN 10 AND 20", lambda number: number % 7 == 2 or 10 <= number <= 20),
        ("price < 0", lambda number: False),
    ],
)
def test_only_what_matches_travels_and_the_rest_is_passed(
    namesrv: str, protocol: str, text: str, is_wanted: Callable[[int], bool]
) -> None:
    options = parse_options(
        {"nameServer": namesrv, "subscribe": "orders", "protocol": protocol, "expression": text, "pullBatchSize": "16"},
        {},
    )
    assert travelled(options, QueueRange(queue("orders"), 0, COUNT)) == list(filter(is_wanted, range(COUNT)))


def test_broker_that_filters_by_tags_only_is_reported_at_once() -> None:
    with Cluster(settings={"enablePropertyFilter": False}) as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, queue("orders"), [b"1"])
        options = SourceOptions(cluster.namesrv, ("orders",), expression=parse_expression("expression", "a = 1"))
        with pytest.raises(SourceUnreachable, match="expression=a = 1: broker broker-a filters only by tags"):
            travelled(options, QueueRange(queue("orders"), 0, 1))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"expression": "paid || refunded"}, "TAG"),
        ({"expression": "*"}, "TAG"),
        ({"subExpression": "paid"}, "TAG"),
        ({"subExpression": "a b"}, "TAG"),
        ({"expression": "a IS NULL"}, "SQL92"),
        ({"expression": "a='x'"}, "SQL92"),
        ({"expression": "two words || three"}, "TAG"),
        ({"expression": "this or that", "expressionType": "tag"}, "TAG"),
        ({"expression": "TRUE", "expressionType": "SQL92"}, "SQL92"),
    ],
)
def test_type_of_an_expression_is_recognized_or_given(given: dict[str, str], kind: str) -> None:
    options = parse_options({"nameServer": "127.0.0.1:1", "subscribe": "a"} | given, {})
    assert (options.expression.text, options.expression.kind) == (next(iter(given.values())), kind)


NAMES = [
    "orders", "orders-eu", "payments", "%RETRY%billing", "%DLQ%billing", "TBW102", "RMQ_SYS_TRACE_TOPIC",
    "rmq_sys_wheel_timer", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "broker-a",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        (".*", ["orders", "orders-eu", "payments"]),
        ("orders", ["orders"]),
        ("order.+|pay.*", ["orders", "orders-eu", "payments"]),
        ("rders.*", []),
        ("%DLQ%.*", ["%DLQ%billing"]),
        (".*billing", []),
        ("(orders|RMQ_SYS_TRACE_TOPIC)", ["RMQ_SYS_TRACE_TOPIC", "orders"]),
        ("rmq_sys_.*|TBW102", ["TBW102", "rmq_sys_wheel_timer"]),
        (r"broker\-a", ["broker-a"]),
    ],
)
def test_pattern_takes_whole_names_and_system_topics_only_by_name(pattern: str, chosen: list[str]) -> None:
    assert TopicPattern(pattern).choose(NAMES, {"DefaultCluster", "broker-a"}) == chosen


def batch(options: SourceOptions) -> list[QueueRange]:
    return link_to(options).ask(lambda client: plan_batch(client, options))


async def _delete(namesrv: str, topic: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.delete_topic(topic)


def test_pattern_meets_topics_that_come_and_continues_without_those_that_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticfire.pipeline.pace.ROUTE_MS", 0)
    with Cluster() as cluster:
        pattern = SourceOptions(cluster.namesrv, (), TopicPattern("log-.*"), starting_offsets="earliest")
        cluster.create_topic("orders", queues=1)
        with pytest.raises(UsageError, match=r"subscribePattern=log-\.\* matches no topic; the topics are: orders$"):
            batch(pattern)
        link = link_to(pattern)
        plan = StreamPlan(pattern, link)
        start = plan.initial()
        assert start == plan.latest(start, None) == {}
        cluster.create_topic("log-a", queues=1)
        send_to(cluster.namesrv, queue("log-a"), [b"1", b"2"])
        first = plan.latest(start, None)
        assert offsets_of(first) == {"log-a": {"broker-a": {"0": 2}}}
        assert plan.ranges(start, first) == [QueueRange(queue("log-a"), 0, 2)] == batch(pattern)
        cluster.create_topic("log-b", queues=1)
        send_to(cluster.namesrv, queue("log-b"), [b"3"])
        asyncio.run(_delete(cluster.namesrv, "log-a"))
        second = plan.latest(first, None)
        assert offsets_of(second) == offsets_of(first) | {"log-b": {"broker-a": {"0": 1}}}
        assert plan.ranges(first, second) == [QueueRange(queue("log-b"), 0, 1)] == batch(pattern)
        again = StreamPlan(replace(pattern, pattern=TopicPattern("log-.*")), link)  # after a restart
        assert again.ranges(start, second)[1:] == [QueueRange(queue("log-b"), 0, 1)]
