"""What the SQL answers about tables that were written by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from staticfire.pipeline.jobs.analysis import MOMENTS_MAX, Analysis, span_of
from staticfire.pipeline.jobs.answers import Answers, Consumer, Try

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(300)]

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGES = "topic string, messageId string, storeTimestamp timestamp, reconsumeTimes int"
Rows = Sequence[tuple[Any, ...]]
CONSUMPTION = "consumer string, outcome string, messageId string, reconsumeTimes int, consumedAt timestamp"


def at(ms: int) -> datetime:
    return BEGAN + timedelta(milliseconds=ms)


def ask(spark: SparkSession, messages: Rows, ledger: Rows | None) -> Answers:
    spark.createDataFrame(messages, MESSAGES).createOrReplaceTempView("messages")
    spark.createDataFrame(ledger or [], CONSUMPTION).createOrReplaceTempView("consumption")
    return Analysis(spark, "orders", "billing", ledger is not None).answers()


def test_latency_is_from_the_first_store_to_the_first_success(spark: SparkSession) -> None:
    messages = [("orders", f"m{number}", at(number), 0) for number in range(101)]
    messages.append(("orders", "m0", at(500), 0))  # Its producer sent it again.
    messages.append(("orders", "never", at(0), 0))
    messages.append(("bills", "other", at(0), 0))
    ledger = [("one", "done", f"m{number}", 0, at(2 * number)) for number in range(101)]
    ledger.append(("two", "done", "m100", 0, at(9_000)))  # Again, after a kill.
    answers = ask(spark, messages, ledger)
    assert (answers.stored, answers.messages, answers.handled_again) == (103, 102, 1)
    assert answers.latency is not None
    found = answers.latency
    assert (found.measured, found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms) == (101, 50, 90, 99, 100)
    assert (found.curve_ms[0], found.curve_ms[100], found.curve_ms[-1]) == (0, 50, 100)
    epoch_ms = int(BEGAN.timestamp() * 1_000)
    assert answers.consumers == (
        Consumer("one", 101, 0, epoch_ms, epoch_ms + 200),
        Consumer("two", 1, 0, epoch_ms + 9_000, epoch_ms + 9_000),
    )


def test_series_has_every_moment_once(spark: SparkSession) -> None:
    messages = [("orders", f"m{number}", at(100 * number), 0) for number in range(10)]
    ledger = [("one", "done", f"m{number}", 0, at(100 * number + 250)) for number in range(10)]
    series = ask(spark, messages, ledger).series
    assert series is not None
    assert [moment.after_ms for moment in series.moments] == [100 * number for number in range(12)]
    assert [moment.stored for moment in series.moments] == [1] * 10 + [0, 0]
    assert [moment.handled for moment in series.moments] == [0, 0] + [1] * 10
    assert series.moments[0].p50_ms == 250
    assert series.moments[-1].p50_ms is None


def test_tries_tell_the_road_to_the_dead_letters(spark: SparkSession) -> None:
    messages = [("orders", "good", at(0), 0), ("orders", "bad", at(0), 0)]
    messages += [("%RETRY%billing", "bad", at(10_000), 1), ("%RETRY%billing", "bad", at(40_000), 2)]
    messages += [("%DLQ%billing", "bad", at(41_000), 2), ("%RETRY%other", "bad", at(1), 7)]
    ledger = [("one", "done", "good", 0, at(5))]
    ledger += [("one", "failed", "bad", times, at(times)) for times in range(3)]
    answers = ask(spark, messages, ledger)
    assert answers.tries == (
        Try(0, 2, 2, 1, 1, 0.0),
        Try(1, 1, 1, 0, 1, 10_000.0),
        Try(2, 1, 1, 0, 1, 40_000.0),
    )
    assert (answers.dead.letters, answers.dead.messages, answers.dead.after_ms) == (1, 1, 41_000.0)


def test_dead_letters_have_one_median_however_often_each_was_tried(spark: SparkSession) -> None:
    messages = [("orders", f"m{number}", at(0), 0) for number in range(5)]
    messages += [("%DLQ%billing", f"m{number}", at(100), 0) for number in range(4)]
    messages += [("%DLQ%billing", "m4", at(90_000), 16), ("%DLQ%billing", "m0", at(200), 1)]
    dead = ask(spark, messages, None).dead
    assert (dead.letters, dead.messages, dead.after_ms) == (6, 5, 100.0)


def test_without_ledgers_the_topics_tell_what_they_know(spark: SparkSession) -> None:
    messages = [("orders", "bad", at(0), 0), ("%RETRY%billing", "bad", at(10_000), 1)]
    answers = ask(spark, messages, None)
    assert (answers.latency, answers.series, answers.consumers) == (None, None, ())
    assert answers.tries == (Try(0, 1, 1, None, None, 0.0), Try(1, 1, 1, None, None, 10_000.0))
    assert (answers.dead.letters, answers.dead.after_ms) == (0, None)


def test_a_topic_without_messages_has_no_latency(spark: SparkSession) -> None:
    answers = ask(spark, [("bills", "m", at(0), 0)], [])
    assert (answers.stored, answers.latency, answers.series) == (0, None, None)


@pytest.mark.parametrize("duration_ms", [0, 1, 12_000, 12_001, 3_600_000, 10_000_000_000])
def test_a_series_never_has_more_points_than_can_be_read(duration_ms: int) -> None:
    assert duration_ms <= span_of(duration_ms) * MOMENTS_MAX
