"""What brokers report about consumption, as files: each start of a broker for itself, and what is missing is known."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.client import Message, Producer
from staticfire.pipeline.consumption.gaps import Gaps, read_gaps, sentences
from staticfire.pipeline.consumption.gathering import notice, query
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.pipeline.consumption.sources import Sources
from staticfire.pipeline.report.consumption import consumption_page
from staticfire.pipeline.report.render import render
from tests.pipeline.findings import FINDINGS

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(120)]


def send_some(cluster: Cluster, producers: int) -> None:
    """Send with several producers, each of which leaves events in the journal."""

    async def run() -> None:
        for number in range(producers):
            async with Producer(f"shop-{number}", cluster.namesrv) as producer:
                await producer.send(Message("orders", b"x"))

    asyncio.run(run())


def kinds_in(folder: Path) -> list[list[str]]:
    """Return the kinds of the records in each file, in the order of their first real times."""
    from pyarrow import parquet

    tables = [parquet.ParquetFile(path).read() for path in folder.glob("*.parquet")]
    return [table["kind"].to_pylist() for table in sorted(tables, key=lambda table: table["realAt"][0].as_py())]


def missing_in(folder: Path) -> int:
    """Return how many numbers the one file in a folder lacks: a broker numbers its events without gaps."""
    from pyarrow import parquet

    (path,) = folder.glob("*.parquet")
    numbers = parquet.ParquetFile(path).read()["number"].to_pylist()
    return int(numbers[-1]) - len(numbers)


@pytest.mark.parametrize("later", [1, 20], ids=["fewer events", "more events"])
def test_a_broker_that_was_started_again_while_message_time_is_frozen_has_another_file(
    tmp_path: Path, later: int
) -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders")
        cluster.clock.freeze()
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        for producers in (5, 5, later):
            cluster.restart("broker-a")
            send_some(cluster, producers)
            stand = notice(settings).stand
            assert notice(settings).stand[0] == stand[0]  # A query is no news.
    found = kinds_in(tmp_path / "journal")
    assert len(found) == 3
    assert [kinds[0] for kinds in found] == ["started"] * 3
    assert [kinds.count("started") for kinds in found] == [1] * 3
    assert read_gaps(settings) == Gaps()


def test_events_that_a_journal_dropped_before_they_were_read_are_counted_and_reported(tmp_path: Path) -> None:
    with Cluster(settings={"journalEventsMax": 100, "journalSpillBytesMax": 0}) as cluster:
        for number in range(130):
            cluster.create_topic(f"orders-{number}", queues=1)
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        notice(settings)
        before = read_gaps(settings).events_lost
        assert before == missing_in(tmp_path / "journal") > 0
        notice(settings)
        assert read_gaps(settings).events_lost == before
        for number in range(130):
            cluster.create_topic(f"bills-{number}", queues=1)
        notice(settings)
        assert before < read_gaps(settings).events_lost <= missing_in(tmp_path / "journal")
    (words,) = sentences(read_gaps(settings), Sources("journals", True))
    assert "events are missing: brokers dropped them" in words
    text = render(consumption_page(replace(FINDINGS, gaps=(words,)), "here", ""), b"")
    assert "Missing data" in text
    assert "events are missing: brokers dropped them" in text
    assert "Missing data" not in render(consumption_page(FINDINGS, "here", ""), b"")


def test_a_broker_without_a_journal_is_named_if_others_have_one(tmp_path: Path) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        gathered = query(settings)
        assert not any(tmp_path.iterdir())  # A query alone writes nothing.
        faulty = replace(gathered.noticed, journal_faults=("broker-b: it keeps no journal",))
        gathered._replace(noticed=faulty).write(settings)
    assert sentences(read_gaps(settings), Sources("journals", True)) == (
        "There is no journal of broker-b: it keeps no journal.",
    )
    assert sentences(read_gaps(settings), Sources("traces", False)) == ()
