"""Records of brokers' journals are in a folder once, whatever the clocks show and however many jobs gather them."""

from pathlib import Path
from typing import Any

import pytest

from staticfire import Cluster
from staticfire.client import BrokerAnswer, Message
from staticfire.pipeline.consumption.gaps import Gaps, read_gaps
from staticfire.pipeline.consumption.gathering import notice, query
from staticfire.pipeline.consumption.journals import AFTER_ALL, NewRecords, read_journal
from staticfire.pipeline.consumption.noted import journal_path
from staticfire.pipeline.consumption.settings import ConsumptionSettings
from staticfire.protocol.requests.journal import GetJournal, JournalAnswer, JournalPage, JournalRecord
from staticfire.protocol.times import MessageMs
from staticfire.runtime.live.clock import LiveClock
from tests.pipeline.stand import send

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(120)]

HOUR_MS = 3_600_000


def make_event(cluster: Cluster, topic: str) -> None:
    """Send a message to a new topic: a broker creates it, which is an event."""
    send(cluster.namesrv, [Message(topic, b"x")])


def numbers_in(settings: ConsumptionSettings) -> list[list[int]]:
    """Return the numbers of the records in each file."""
    from pyarrow import parquet

    paths = sorted(Path(settings.place("journal")).glob("*.parquet"))
    return [parquet.ParquetFile(path).read()["number"].to_pylist() for path in paths]


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 150], ids=["ahead", "back", "a bit"])
def test_a_step_of_the_wall_clock_adds_no_record_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_ms: int
) -> None:
    with Cluster(isolation="thread") as cluster:
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        make_event(cluster, "orders")
        notice(settings)
        (before,) = numbers_in(settings)
        right = LiveClock.wall_ms
        monkeypatch.setattr(LiveClock, "wall_ms", lambda clock: MessageMs(right(clock) + step_ms))
        notice(settings)
        assert numbers_in(settings) == [before]
        make_event(cluster, "bills")
        notice(settings)
    (after,) = numbers_in(settings)
    assert after == list(range(1, len(after) + 1))
    assert len(after) > len(before)
    assert read_gaps(settings) == Gaps()


def test_jobs_that_overlap_add_no_record_twice(tmp_path: Path) -> None:
    with Cluster(isolation="thread") as cluster:
        settings = ConsumptionSettings(cluster.namesrv, str(tmp_path))
        make_event(cluster, "orders")
        first = query(settings)
        make_event(cluster, "bills")
        second = query(settings)
        for gathered in (first, second, first):
            gathered.write(settings)
    (numbers,) = numbers_in(settings)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > len(first.journals[0].records)
    assert read_gaps(settings) == Gaps()


class StartedAgain:
    """A broker that is started again after its first page. It has a page per record."""

    def __init__(self, *starts: tuple[str, int]) -> None:
        """`starts`: the id of each journal, and how many records are read before the next start."""
        self._starts = list(starts)
        self.client = self.pool = self

    async def ask(self, _: str, request: GetJournal, timeout_ms: int) -> JournalAnswer:
        journal_id, count = self._starts[0]
        number = request.first_number
        if number == AFTER_ALL:
            return JournalAnswer(body=JournalPage(next_number=number, journal_id=journal_id))
        if number > count and len(self._starts) > 1:
            del self._starts[0]
            journal_id, count = self._starts[0]
        if number > count:
            return JournalAnswer(body=JournalPage(next_number=number, journal_id=journal_id))
        records = [JournalRecord(number, "broker-a", journal_id, 0, 0)]
        return JournalAnswer(body=JournalPage(records, number + 1, is_end=False, journal_id=journal_id))


async def test_a_broker_that_starts_again_while_it_is_read_has_another_file(tmp_path: Path) -> None:
    first = NewRecords(journal_path(tmp_path, "broker-a", "a1"), 1, [JournalRecord(1, "broker-a", "a1", 0, 0)], 1)
    first.write()
    broker: Any = StartedAgain(("a1", 3), ("b2", 2))
    parts = await read_journal(broker, "broker-a", "10.0.0.1:10911", tmp_path, None)
    found = [(part.path.name, part.first_number, [one.number for one in part.records]) for part in parts]
    assert found == [("broker-a-a1.parquet", 2, [2, 3]), ("broker-a-b2.parquet", 1, [1, 2])]
    assert {one.kind for one in parts[1].records} == {"b2"}


@pytest.mark.parametrize("journal_id", ["", "../../etc"], ids=["none, as of an earlier version", "a path"])
async def test_a_journal_without_a_right_id_is_refused(tmp_path: Path, journal_id: str) -> None:
    broker: Any = StartedAgain((journal_id, 3))
    with pytest.raises(BrokerAnswer, match="its journal has no id"):
        await read_journal(broker, "broker-a", "10.0.0.1:10911", tmp_path, None)
