"""Rows of records: side by side in one queue, settled once, all of them or none."""

from typing import Any

import pytest

from staticfire.broker.store.new_record import NewRows
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.batch_rows import Row
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import HOST, SMALL, StoreStand


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def rows(*bodies: bytes, flag: int = 0) -> list[Row]:
    return [(flag, b"TAGS\x01a\x02", body, 97) for body in bodies]


def append_all(store: MessageStore, settled: list[Any], given: list[Row], sys_flag: int = 0) -> list[int]:
    queue = store.queue("orders", 0)
    new = NewRows(queue, 5, HOST, given, sys_flag)
    return store.put_all(new, MessageMs(1000), lambda *reported: settled.append(reported), "context")


@pytest.mark.parametrize("flag", [0, 7], ids=["plain", "with a flag"])
@pytest.mark.parametrize("sys_flag", [0, 1], ids=["plain", "compressed"])
def test_a_row_lies_side_by_side_and_is_settled_once(stand: StoreStand, flag: int, sys_flag: int) -> None:
    stand.send(b"before")
    settled: list[Any] = []
    positions = append_all(stand.store, settled, rows(b"one", b"two", b"three", flag=flag), sys_flag)
    stand.append(b"after")
    assert settled == []
    stand.store.commit()
    assert settled == [("context", 1, positions[0], PutOutcome.STORED)]
    assert stand.bodies() == [b"before", b"one", b"two", b"three", b"after"]
    entries = stand.store.entries(stand.store.queue("orders", 0), 1, 3)
    assert [(entry.log_position, entry.tags_code) for entry in entries] == [(position, 97) for position in positions]
    stand.restart()
    assert stand.bodies() == [b"before", b"one", b"two", b"three", b"after"]


def test_a_row_continues_in_the_next_segment(stand: StoreStand) -> None:
    settled: list[Any] = []
    bodies = [b"%04d" % number * 100 for number in range(20)]
    positions = append_all(stand.store, settled, rows(*bodies))
    stand.store.commit()
    assert stand.bodies() == bodies
    assert [position for position, _ in stand.store.records_from(0)] == positions
    assert settled == [("context", 0, 0, PutOutcome.STORED)]


def test_of_a_row_with_one_that_is_too_large_nothing_is_stored(stand: StoreStand) -> None:
    settled: list[Any] = []
    with pytest.raises(StorageError, match="too large"):
        append_all(stand.store, settled, rows(b"one", bytes(SMALL.segment_bytes_max), b"three"))
    stand.send(b"after")
    assert (stand.bodies(), settled) == ([b"after"], [])


def test_a_row_that_can_not_be_written_is_settled_as_failed_and_leaves_nothing(stand: StoreStand) -> None:
    settled: list[Any] = []
    append_all(stand.store, settled, rows(b"one", b"two"))
    stand.disk.fail_write()
    stand.store.commit()
    assert [outcome for *_, outcome in settled] == [PutOutcome.FAILED]
    stand.send(b"after")
    assert stand.bodies() == [b"after"]


def test_an_empty_row_is_nothing(stand: StoreStand) -> None:
    settled: list[Any] = []
    assert append_all(stand.store, settled, []) == []
    stand.store.commit()
    assert settled == []


def test_a_closed_store_takes_no_row(stand: StoreStand) -> None:
    store = stand.store
    store.close()
    with pytest.raises(StorageError, match="closed"):
        append_all(store, [], rows(b"one"))
