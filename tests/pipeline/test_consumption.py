"""What consumption was like: of consumers that trace, beside what they counted; and by tables made by hand."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.pipeline.consumption.job import look
from staticfire.pipeline.consumption.reading import TableReader
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.pipeline.consumption.sources import (
    JOURNAL_COLUMNS,
    LEDGER_COLUMNS,
    PROGRESS_COLUMNS,
    Given,
    Sources,
    SourceViews,
)
from staticfire.pipeline.consumption.tables import ConsumptionTables
from staticfire.protocol.errors import ClientError

pytestmark = [
    pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(500), pytest.mark.usefixtures("for_few_rows"),
]  # fmt: skip

COUNT, POISON = 60, b"7"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGES = (
    "topic string, brokerName string, queueId int, queueOffset bigint, messageId string, reconsumeTimes int, "
    "bornTimestamp timestamp, storeTimestamp timestamp, tags string, body binary"
)
NEW, OLD = "10.0.0.2@2#x", "10.0.0.1@1#x"


class Counted:
    """A group of two members, and what their listeners counted themselves."""

    def __init__(self, cluster: Cluster) -> None:
        self.calls: Counter[tuple[str, bool]] = Counter()
        self._namesrv = cluster.namesrv
        self._all = asyncio.Event()

    def member(self, name: str) -> PushConsumer:
        settings = PushSettings(
            ClientSettings(instance_name=name), consume_from_where=ConsumeFromWhere.FIRST_OFFSET, enable_trace=True,
            max_reconsume_times=0,
        )  # fmt: skip
        consumer = PushConsumer("billing", self._namesrv, settings)
        consumer.subscribe("orders")

        @consumer.listener
        async def handle(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            is_good = all(message.body != POISON for message in messages)
            self.calls.update((message.message_id, is_good) for message in messages)
            if len(self.calls) == COUNT + 1:
                self._all.set()
            return ConsumeStatus.CONSUME_SUCCESS if is_good else ConsumeStatus.RECONSUME_LATER

        return consumer

    async def run(self) -> None:
        """One member, then a second, while messages come; one of them is dead at once."""
        settings = ProducerSettings(enable_trace=True)
        async with Producer("shop", self._namesrv, settings) as producer, self.member("one"):
            await producer.send_many([Message("orders", b"%d" % number) for number in range(COUNT // 2)])
            async with self.member("two"):
                more = [Message("orders", b"%d" % number) for number in range(COUNT // 2, COUNT)]
                await producer.send_many(more)
                await producer.send(Message("orders", b"later", delay_level=1))
                await self._all.wait()


def test_a_cluster_whose_consumers_trace_is_reported_as_they_counted_it(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=2)
        counted = Counted(cluster)
        asyncio.run(counted.run())
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        findings = look(spark, settings)
    handled = Counter(message_id for message_id, is_good in counted.calls.elements() if is_good)
    (pair,) = findings.pairs
    assert (findings.told_by, findings.has_journal) == ("traces", True)
    assert (pair.group, pair.topic, pair.messages, pair.dead) == ("billing", "orders", COUNT + 1, 1)
    assert (pair.handled, pair.duplicates) == (len(handled), handled.total() - len(handled))
    assert sum(one.attempts for one in findings.members) == counted.calls.total()
    assert sum(one.failed for one in findings.members) == 1
    assert sum(one.count for one in findings.causes) == pair.duplicates
    assert findings.stuck == ()
    assert {one.consumer.split("@")[1].split("#")[0] for one in findings.holdings} == {"one", "two"}
    (delay,) = findings.delays
    assert (delay.level, delay.delay_ms, delay.waits, delay.early) == (1, 1_000, 1, 0)


def test_without_traces_and_journals_it_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    messages = spark.createDataFrame([], MESSAGES)
    given = Given(messages, spark.createDataFrame([], JOURNAL_COLUMNS), spark.createDataFrame([], PROGRESS_COLUMNS))
    with pytest.raises(
        ClientError, match=r"the data in .* doesn't show which messages were consumed: .*enable_trace=True"
    ):
        SourceViews(spark, ConsumptionSettings("", str(tmp_path))).make(given)


def at(ms: int) -> datetime:
    return BEGAN + timedelta(milliseconds=ms)


def message(
    topic: str, offset: int, message_id: str, ms: int, tried: int = 0, tags: str | None = None
) -> tuple[Any, ...]:
    return (topic, "a", 0, offset, message_id, tried, at(ms), at(ms), tags, b"")


def noted(number: int, ms: int, kind: str, client: str = "", **more: Any) -> tuple[Any, ...]:
    """Return a record of the journal about queue 0 of orders."""
    given = {"queueOffset": -1, "endOffset": -1, "words": "", "at": at(ms), "rate": None, "details": "{}"} | more
    return (
        number, "a", kind, given["at"], at(ms), client, "billing", "orders", 0, given["queueOffset"],
        given["endOffset"], "", given["words"], given["rate"], given["details"],
    )  # fmt: skip


def attempt(consumer: str, message_id: str, began: int, ended: int, tried: int = 0, outcome: str = "done") -> Any:
    return ("billing", consumer, message_id, tried, at(began), at(ended), outcome)


def views(
    spark: SparkSession, settings: ConsumptionSettings, messages: Any, journal: Any, ledger: Any | None
) -> Sources:
    given = Given(
        spark.createDataFrame(messages, MESSAGES),
        spark.createDataFrame(journal, JOURNAL_COLUMNS),
        spark.createDataFrame([("billing", "orders", "a", 0, 4, 6)], PROGRESS_COLUMNS),
        None if ledger is None else spark.createDataFrame(ledger, LEDGER_COLUMNS),
    )
    return SourceViews(spark, settings).make(given)


def test_duplicates_have_causes_queues_have_owners_and_waiting_messages_are_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    messages = [message("orders", number, f"m{number}", 0) for number in range(6)]
    messages += [message("orders", 6, "m0", 5), message("%RETRY%billing", 0, "m1", 10_050, 1)]
    messages += [message("SCHEDULE_TOPIC_XXXX", 0, "w", 0), message("orders", 7, "w", 1_004)]
    journal = [
        noted(1, 0, "joined", OLD), noted(2, 1, "tookOver", OLD, queueOffset=0),
        noted(3, 2, "delivered", OLD, queueOffset=0, endOffset=4),
        noted(4, 3_500, "joined", NEW), noted(5, 3_600, "left", OLD, words="connection lost"),
        noted(6, 3_700, "tookOver", NEW, queueOffset=2), noted(7, 3_701, "delivered", NEW, queueOffset=2, endOffset=5),
    ]  # fmt: skip
    ledger = [
        attempt("one", "m0", 10, 20), attempt("one", "m0", 30, 40),
        attempt("one", "m1", 10, 20), attempt("two", "m1", 10_060, 10_070, tried=1),
        attempt("one", "m2", 100, 3_650), attempt("two", "m2", 3_640, 3_720),
        attempt("one", "m3", 20, 30, outcome="failed"), attempt("two", "w", 4_010, 4_020),
        attempt("two", "m4", 3_730, 3_740),
    ]  # fmt: skip
    settings = ConsumptionSettings("", str(tmp_path))
    sources = views(spark, settings, messages, journal, ledger)
    ConsumptionTables(spark, settings, sources).write()
    findings = TableReader(spark, sources).findings()
    assert {(one.cause, one.count) for one in findings.causes} == {
        ("stored twice: its producer has sent it again", 1),
        ("sent back although it was handled", 1),
        ("its member left before it committed", 1),
    }
    assert [(one.consumer, one.from_ms, one.to_ms) for one in findings.holdings] == [
        ("one", 1, 3_600),
        ("two", 3_700, None),
    ]
    (first, second) = findings.rebalances
    assert (first.at_ms, first.cause) == (1, f"{OLD} joined")
    assert (second.at_ms, second.queues, second.cause) == (3_700, 1, f"{OLD} left (connection lost)")
    assert {(one.state, one.messages) for one in findings.stuck} == {("waits", 1), ("waits for its retry", 1)}
    (overlap,) = findings.overlaps
    assert (overlap.calls, overlap.max_ms) == (1, 10)
    (delay,) = findings.delays
    assert (delay.level, delay.waits, delay.p50_late_ms) == (1, 1, 4)
    assert [(one.consumer, one.attempts) for one in findings.members] == [("one", 5), ("two", 4)]


@pytest.mark.parametrize(
    ("subscribed", "ledger", "counted"),
    [
        ("a || c", None, (2, 2)),
        ("a || c", [attempt("one", "m0", 10, 20), attempt("one", "m1", 20, 30)], (3, 2)),
        ("a IS NULL", None, (5, 4)),
    ],
    ids=["from the journal", "with an earlier subscription", "by a condition"],
)
def test_messages_that_a_group_has_not_subscribed_to_are_not_counted(
    spark: SparkSession, tmp_path: Path, subscribed: str, ledger: Any | None, counted: tuple[int, int]
) -> None:
    tags = ("a", "b", None, "c", "b")
    messages = [message("orders", number, f"m{number}", 0, tags=tag) for number, tag in enumerate(tags)]
    details = json.dumps({"subscriptions": {"orders": subscribed, "%RETRY%billing": "*"}})
    journal = [
        noted(1, 0, "joined", OLD, details=details), noted(2, 1, "tookOver", OLD, queueOffset=0),
        noted(3, 2, "delivered", OLD, queueOffset=0, endOffset=4),
    ]  # fmt: skip
    settings = ConsumptionSettings("", str(tmp_path))
    sources = views(spark, settings, messages, journal, ledger)
    ConsumptionTables(spark, settings, sources).write()
    findings = TableReader(spark, sources).findings()
    (pair,) = findings.pairs
    assert (pair.messages, pair.handled) == counted
    assert sum(one.messages for one in findings.stuck) == counted[0] - counted[1]
    assert findings.answers["billing", "orders"].stored == counted[0]


def test_wall_clocks_are_translated_where_message_time_was_moved(spark: SparkSession, tmp_path: Path) -> None:
    """An hour is skipped at 1 s: what comes 10 ms later comes an hour and 10 ms later in message time."""
    hour = 3_600_000
    messages = [message("orders", 0, "m0", 0), message("orders", 1, "m1", hour + 1_000)]
    journal = [noted(1, 1_000, "clockSet", at=at(hour + 1_000), rate=1.0)]
    ledger = [attempt("one", "m0", 40, 50), attempt("one", "m1", 1_010, 1_020)]
    views(spark, ConsumptionSettings("", str(tmp_path)), messages, journal, ledger)
    ends = spark.sql("SELECT unix_millis(endedAt), unix_millis(realEndedAt) FROM attempts ORDER BY endedAt").collect()
    began = round(BEGAN.timestamp() * 1_000)
    assert [(ended - began, real - began) for ended, real in ends] == [(50, 50), (hour + 1_020, 1_020)]
