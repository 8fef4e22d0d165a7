"""The tables of the key index: generations, which a model of them holds to be one list."""

import gc
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from staticfire.broker.key_tables import Entry, IndexedSlice, KeyTables

pytestmark = pytest.mark.row("F3")

FOREVER = (1 << 63) - 1
PAID, OPEN = 4711, -(1 << 63)
ROWS = 10
"""Of a generation: tests have small ones."""


def tables(folder: Path) -> KeyTables:
    return KeyTables(str(folder / "keys.sqlite"), ROWS)


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections of the tables that were opened."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connect_and_note(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_note)
    return opened


def part(first: int, count: int, key: int = PAID) -> IndexedSlice:
    """A slice with a message at each position, stored then."""
    rows: list[Entry] = [(key, position, position) for position in range(first, first + count)]
    return IndexedSlice(rows, first + count, (first + count - 1,) * 2 if count else None, 0)


def found(index: KeyTables, key: int = PAID, limit: int = 100, below: int = FOREVER) -> list[int]:
    return index.find(key, 0, FOREVER, below, limit)


def generations(folder: Path) -> list[tuple[int, int, int]]:
    with closing(sqlite3.connect(folder / "keys.sqlite")) as database:
        return list(database.execute("SELECT start, end, row_count FROM generations ORDER BY id"))


@pytest.mark.parametrize("count", [5, 10, 25])
def test_the_newest_come_first(tmp_path: Path, count: int) -> None:
    index = tables(tmp_path)
    for first in range(0, count, 5):
        index.add(part(first, 5))
    last = count - 1
    assert found(index, limit=2) == [last, last - 1]
    assert found(index, below=3) == [2, 1, 0]
    assert found(index, below=3, limit=1) == [2]
    assert index.find(PAID, 1, 2, FOREVER, 10) == [2, 1]
    assert index.find(PAID, count, count + 5, FOREVER, 10) == []
    assert found(index, OPEN) == []
    index.close()


def test_it_is_kept_and_cut_to_the_log(tmp_path: Path) -> None:
    index = tables(tmp_path)
    index.add(part(0, 5))
    index.close()
    index = tables(tmp_path)
    assert (index.position, index.last_position, found(index)) == (5, 4, [4, 3, 2, 1, 0])
    index.add(part(5, 20))
    index.cut(10, 25)
    assert found(index, below=10) == [
        9,
        8,
        7,
        6,
        5,
    ]  # Old rows of a generation that isn't all old: the reader checks each.
    index.cut(25, 25)
    assert found(index) == []
    index.close()


def test_small_generations_become_one(tmp_path: Path) -> None:
    for first in range(0, 14, 2):
        index = tables(tmp_path)
        index.add(part(first, 2))
        index.close()
    index = tables(tmp_path)
    assert generations(tmp_path) == [(0, 10, 10), (10, 14, 4)]
    assert found(index) == list(range(13, -1, -1))
    index.close()


def test_slices_without_keys_count_as_looked_at(tmp_path: Path) -> None:
    index = tables(tmp_path)
    index.add(IndexedSlice([], 500, (400, 400), 0))
    index.close()
    index = tables(tmp_path)
    assert (index.position, index.last_position, generations(tmp_path)) == (500, 400, [])
    index.close()


def test_what_was_staged_when_the_process_died_is_fetched_again(tmp_path: Path) -> None:
    index = tables(tmp_path)
    index.add(part(0, 12))
    index.add(part(12, 5))
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tmp_path.glob("keys*"):
        shutil.copy(file, copy)
    index.close()
    died = tables(copy)
    assert (died.position, found(died)) == (12, list(range(11, -1, -1)))
    died.close()


@pytest.mark.parametrize(("end", "reached"), [(17, 12), (12, 12), (11, 0), (0, 0), (20, 17)])
def test_what_a_loss_of_power_took_is_forgotten(tmp_path: Path, end: int, reached: int) -> None:
    index = tables(tmp_path)
    index.add(part(0, 12))
    index.add(part(12, 5))
    index.cut(0, end)
    assert index.position == (17 if end >= 17 else reached)
    assert found(index) == list(range(index.position - 1, -1, -1))
    index.add(part(index.position, 30, OPEN))
    assert set(found(index, OPEN)) == set(range(reached if end < 17 else 17, index.position))
    index.close()


def test_a_full_disk_loses_nothing(tmp_path: Path, databases: list[sqlite3.Connection]) -> None:
    index = tables(tmp_path)
    (database,) = databases
    database.execute("PRAGMA max_page_count = 1")
    for first in (0, 1_000):
        with pytest.raises(sqlite3.OperationalError, match="full"):
            index.add(part(first, 1_000))
    assert found(index, below=5) == [4, 3, 2, 1, 0]
    assert (index.position, index.find(PAID, 0, FOREVER, FOREVER, 1)) == (1_000, [999])
    database.execute("PRAGMA max_page_count = 1000")
    index.add(part(1_000, 5))
    assert found(index, limit=2_000) == list(range(1_004, -1, -1))
    index.close()


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + bytes(4096)])
def test_what_is_no_index_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keys.sqlite").write_bytes(content)
    with pytest.raises(sqlite3.DatabaseError):
        tables(tmp_path)


def test_an_index_of_an_older_layout_is_rebuilt(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "keys.sqlite")
    old.execute("CREATE TABLE keys (hash INTEGER, position INTEGER)")
    old.execute("CREATE TABLE progress (start INTEGER)")
    old.execute("PRAGMA user_version = 1")
    old.close()
    index = tables(tmp_path)
    assert index.position == 0
    index.add(part(0, 3))
    assert found(index) == [2, 1, 0]
    index.close()


STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 3), max_size=15)),
    st.tuples(st.just("cut"), st.tuples(st.integers(0, 40), st.integers(0, 60))),
    st.tuples(st.just("reopen"), st.none()),
)


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_no_key_below_its_position_is_missing(tmp_path: Path, steps: list[tuple[str, Any]]) -> None:
    for file in tmp_path.glob("keys*"):
        file.unlink()
    index = tables(tmp_path)
    log: list[int] = []  # The key of the message at each position.
    start = 0
    for name, what in steps:
        if name == "add":
            log = [*log[: index.position], *what]
            rows = [(key, at, at) for at, key in enumerate(log) if at >= index.position]
            index.add(IndexedSlice(rows, max(len(log), index.position), None, 0))
        elif name == "cut":
            log = log[: what[1]]
            start = min(max(start, what[0]), len(log))
            index.cut(start, len(log))
        else:
            index.close()
            index = tables(tmp_path)
        assert index.position <= len(log)
        for key in range(4):
            expected = [at for at, one in enumerate(log[: index.position]) if one == key and at >= start]
            assert [at for at in reversed(found(index, key)) if at >= start] == expected
    index.close()


def test_a_flipped_bit_of_the_file_hides_no_message(tmp_path: Path, databases: list[sqlite3.Connection]) -> None:
    """It is seen when the index is opened or asked, which makes it anew; or it was in unused space."""
    index, chance, keys = KeyTables(str(tmp_path / "keys.sqlite"), 100), Random(22), range(40)
    for first in range(0, 350, 25):
        rows: list[Entry] = [(PAID * (1 + at % 40), at, 1_700_000_000_000 + at) for at in range(first, first + 25)]
        index.add(IndexedSlice(rows, first + 25, (first + 24, first + 24), 0))
    expected = [found(index, PAID * (1 + key)) for key in keys]
    position = index.position
    index.close()
    whole = (tmp_path / "keys.sqlite").read_bytes()
    used = [at for at in range(len(whole)) if whole[at]]
    seen = 0
    for number in range(400):
        flipped = bytearray(whole)
        flipped[chance.choice(used)] ^= 1 << chance.randrange(8)
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(flipped)
        try:
            index = KeyTables(str(path), 100)
        except sqlite3.Error:
            seen += 1
            continue
        try:
            # One of another layout is empty, and says so.
            assert index.position == 0 or [found(index, PAID * (1 + key)) for key in keys] == expected
            assert index.position in (0, position)
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            seen += 1
        finally:
            databases.pop().close()
    assert seen > 100


def test_small_generations_become_one_only_if_they_are_whole(tmp_path: Path) -> None:
    index = tables(tmp_path)
    index.add(part(0, 4))
    index.close()
    path = tmp_path / "keys.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE keys SET stored_ms = 77 WHERE position = 2")
        database.commit()
    index = tables(tmp_path)
    index.add(part(4, 6))
    with pytest.raises(sqlite3.DatabaseError, match="checksum"):
        index.close()


def test_the_database_of_tables_that_are_gone_is_closed(tmp_path: Path, databases: list[sqlite3.Connection]) -> None:
    """A killed process of the simulation closes nothing."""
    index = tables(tmp_path)
    [database] = databases
    assert database.execute("SELECT 1").fetchone() == (1,)
    del index
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")
