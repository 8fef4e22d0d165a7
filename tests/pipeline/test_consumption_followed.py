"""A look into consumption that is kept up to date, from a cluster that changes while it runs."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.pipeline.consumption import reading
from staticfire.pipeline.consumption.findings import ConsumptionFindings, Pair
from staticfire.pipeline.consumption.following import follow
from staticfire.pipeline.consumption.gathering import notice
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from tests.pipeline.stand import numbered, send

pytestmark = [
    pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(500), pytest.mark.usefixtures("for_few_rows"),
]  # fmt: skip

POISON = b"3"
Wanted = Callable[[dict[str, Pair]], bool]


def consume(namesrv: str, group: str, topic: str, count: int) -> None:
    """Handle so many messages in a group without traces; the poison is given back, and dies at once."""

    async def run() -> None:
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, max_reconsume_times=0)
        consumer = PushConsumer(group, namesrv, settings)
        consumer.subscribe(topic)
        left, done = count, asyncio.Event()

        @consumer.listener
        async def handle(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            nonlocal left
            left -= len(messages)
            if left <= 0:
                done.set()
            is_good = topic != "bills" or all(message.body != POISON for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS if is_good else ConsumeStatus.RECONSUME_LATER

        async with consumer:
            await done.wait()

    asyncio.run(run())


def life_of(cluster: Cluster) -> Iterator[Wanted]:
    """What happens in the cluster; each yield is what the tables have to say before it goes on."""
    yield lambda pairs: not pairs
    consume(cluster.namesrv, "billing", "orders", 20)  # Stores nothing: no batch tells of it.
    yield lambda pairs: handled(pairs, "billing") == (20, 20, 0)
    cluster.create_topic("bills", queues=1)
    send(cluster.namesrv, numbered("bills", 5))
    consume(cluster.namesrv, "mailing", "bills", 5)
    yield lambda pairs: handled(pairs, "mailing") == (5, 4, 1)
    cluster.broker("broker-a").kill()
    cluster.broker("broker-a").restart()
    send(cluster.namesrv, numbered("orders", 3, start=20))
    consume(cluster.namesrv, "billing", "orders", 3)
    yield lambda pairs: handled(pairs, "billing") == (23, 23, 0)


def handled(pairs: dict[str, Pair], group: str) -> tuple[int, int, int]:
    """Return how many messages a group has, has handled, and let die."""
    pair = pairs.get(group)
    return (pair.messages, pair.handled, pair.dead) if pair is not None else (0, 0, 0)


def test_tables_follow_what_is_consumed_new_topics_dead_letters_and_a_broker_that_starts_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAIRS_TOLD_MAX", 0)  # Plots of pairs are half of the work, and none of this.
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders", queues=1)
        send(cluster.namesrv, numbered("orders", 20))
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path), trigger_ms=300)
        life = life_of(cluster)
        wanted = next(life)
        seen: list[ConsumptionFindings] = []

        def reported(findings: ConsumptionFindings) -> None:
            nonlocal wanted
            seen.append(findings)
            if not wanted({pair.group: pair for pair in findings.pairs}):
                return  # The next tables will say it, or the test ends here.
            try:
                wanted = next(life)
            except StopIteration:
                for query in spark.streams.active:
                    query.stop()

        follow(spark, settings, reported)
        # Looking isn't news. A member that has just left may be, once.
        assert any(notice(settings).stand == notice(settings).stand for _ in range(5))
    tables = {pair.group: pair for pair in seen[-1].pairs}
    assert set(tables) == {"billing", "mailing"}
    rows = spark.read.parquet(settings.result_place("tables/latency")).collect()
    assert {(row.groupName, row.handled, row.dead) for row in rows} == {("billing", 23, 0), ("mailing", 4, 1)}
    assert len(list((tmp_path / "journal").glob("broker-a-*.parquet"))) == 2  # One of each start.
