"""Filters that are pushed down let through what they would keep, and leave out what brokers can leave out."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from staticfire import Cluster
from staticfire.client import Message, MessageQueue
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pushing import push
from tests.pipeline.stand import frame, send

pytestmark = pytest.mark.spark

A0, A1, B0 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1), MessageQueue("bills", "b", 0)
RANGES = [QueueRange(A0, 0, 100), QueueRange(A1, 40, 60), QueueRange(B0, 10, 20)]
T, K = ("tags",), ("keys",)


@pytest.mark.parametrize(
    ("filters", "expression"),
    [
        ([EqualTo(T, "paid"), IsNotNull(T)], "TAG paid"),
        ([In(T, ("paid", "open", None))], "TAG open || paid"),
        ([In(T, ("paid", "open")), EqualTo(T, "paid")], "TAG paid"),
        ([EqualTo(T, "two words")], "SQL92 TAGS IN ('two words')"),
        ([EqualTo(T, "it's")], "SQL92 TAGS IN ('it''s')"),
        ([Not(EqualTo(T, "paid")), IsNotNull(T)], "SQL92 TAGS <> 'paid'"),
        ([EqualTo(T, "paid"), StringContains(K, "7")], "SQL92 TAGS IN ('paid') AND KEYS CONTAINS '7'"),
        ([StringStartsWith(T, "pa")], "SQL92 TAGS STARTSWITH 'pa'"),
        ([IsNotNull(K)], "SQL92 KEYS IS NOT NULL"),
        ([EqualTo(T, "paid"), IsNull(K)], "TAG paid"),
        ([IsNull(T)], ""),
        ([EqualNullSafe(T, None)], ""),
        ([Not(In(T, ("a",)))], ""),
        ([EqualTo(T, "")], ""),
        ([EqualTo(T, "a\nb")], ""),
        ([EqualTo(T, "x" * 40_000 + " ")], ""),
        ([EqualTo(("flag",), 3), EqualTo(("properties", "a"), "b")], ""),
    ],
)
def test_filters_over_tags_and_keys_become_an_expression(filters: list[Filter], expression: str) -> None:
    pushed = push(filters).expression
    assert ("" if pushed is None else f"{pushed.kind} {pushed.text}") == expression


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(("queueId",), 0)], [RANGES[0], RANGES[2]]),
        ([In(("topic",), ("orders", "x")), EqualTo(("brokerName",), "a"), EqualTo(("queueId",), 1)], [RANGES[1]]),
        ([EqualTo(("queueId",), 0), EqualTo(("queueId",), 1)], []),
        ([GreaterThan(("queueOffset",), 50)], [QueueRange(A0, 51, 100), QueueRange(A1, 51, 60)]),
        ([LessThanOrEqual(("queueOffset",), 41)], [QueueRange(A0, 0, 42), QueueRange(A1, 40, 42), RANGES[2]]),
        ([In(("queueOffset",), (15, 12))], [QueueRange(A0, 12, 16), QueueRange(B0, 12, 16)]),
        ([EqualNullSafe(("queueOffset",), None), Not(EqualTo(("queueId",), 0))], RANGES),
    ],
)
def test_filters_over_places_leave_out_ranges(filters: list[Filter], left: list[QueueRange]) -> None:
    assert push(filters).narrow(RANGES) == left


def test_querys_own_expression_stays() -> None:
    from staticfire.pipeline.expressions import parse_expression

    own = SourceOptions("127.0.0.1:1", ("orders",), expression=parse_expression("expression", "open"))
    assert push([EqualTo(T, "paid")]).options(own) == own


def test_pushed_query_answers_as_the_plain_one(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    tags = ("paid", "open", "", "it's")
    sent = [Message("orders", b"%d" % n, tags=tags[n // 2 % 4], keys=[f"k{n}"] if n % 3 else []) for n in range(200)]
    send(cluster.namesrv, sent)
    plain, pushing = (frame(spark, cluster.namesrv, "orders", pushDownFilters=on) for on in (False, True))
    conditions = [
        "tags = 'paid' AND queueOffset BETWEEN 3 AND 20",
        "tags <> 'paid' AND keys LIKE 'k1%' AND queueId IN (1, 5)",
        "keys IS NULL AND tags = 'it''s'",
    ]
    for condition in conditions:
        wanted, got = plain.where(condition).collect(), pushing.where(condition).collect()
        assert sorted(map(str, got)) == sorted(map(str, wanted)) != []
