"""An offset is found by the time at which its message was stored."""

from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, strategies as st

from staticfire.broker.store.time_search import Boundary, search_offset
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import StoreStand

STORED = [100, 200, 200, 200, 300]


@pytest.mark.parametrize(
    ("message_ms", "lower", "upper"),
    [(99, 0, 0), (100, 0, 0), (101, 1, 0), (200, 1, 3), (250, 4, 3), (300, 4, 4), (301, 5, 4)],
)
def test_the_first_or_the_last_of_a_time_is_found(message_ms: int, lower: int, upper: int) -> None:
    stand = StoreStand()
    stand.open()
    for stored_ms in STORED:
        stand.append(b"x", stored_ms=stored_ms)
        stand.append(b"y", queue_id=1, stored_ms=stored_ms)
    stand.store.commit()
    for _ in range(2):
        queue = stand.store.queue("orders", 0)
        assert stand.store.search_offset(queue, MessageMs(message_ms), Boundary.LOWER) == lower
        assert stand.store.search_offset(queue, MessageMs(message_ms), Boundary.UPPER) == upper
        stand.store.flush()
        stand.restart()


@pytest.mark.parametrize("boundary", Boundary)
def test_an_empty_queue_gives_0(boundary: Boundary) -> None:
    stand = StoreStand()
    stand.open()
    assert stand.store.search_offset(stand.store.queue("orders", 0), MessageMs(5), boundary) == 0


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(-1, 21), st.integers(0, 5))
def test_a_search_finds_what_looking_at_all_would(stored: list[int], message_ms: int, first: int) -> None:
    stored.sort()
    found = [
        search_offset(
            first, first + len(stored), MessageMs(message_ms), boundary, lambda offset: stored[offset - first]
        )
        for boundary in (Boundary.LOWER, Boundary.UPPER)
    ]
    last_of_it = max(bisect_right(stored, message_ms) - 1, 0)
    assert found == [first + bisect_left(stored, message_ms), first + last_of_it]
