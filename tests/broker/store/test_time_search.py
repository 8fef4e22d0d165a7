"""An offset is found by the time at which its message was stored."""

import pytest
from hypothesis import given, strategies as st

from staticfire.broker.store.time_search import Boundary, probes, search_offset
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import LOG, StoreStand

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


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60),
    st.integers(-1, 21),
    st.integers(0, 5),
    st.sampled_from([1, 3, 800]),
)
def test_a_search_finds_what_looking_at_all_would_and_passes_nothing_that_can_be_read(
    messages: list[tuple[int, bool]], message_ms: int, first: int, looked_at: int
) -> None:
    """A message that can't be read counts as stored with the next one that can; behind the last one nothing is."""
    times = sorted(ms for ms, _ in messages)
    is_whole = [whole for _, whole in messages]
    end = first + len(times)

    def next_stored(offset: int) -> tuple[int, int] | None:
        found = (at for at in probes(offset, end, looked_at) if is_whole[at - first])
        return next(((at, times[at - first]) for at in found), None)

    lower, upper = (search_offset(first, end, MessageMs(message_ms), boundary, next_stored) for boundary in Boundary)
    readable = [(at, times[at - first]) for at in range(first, end) if is_whole[at - first]]
    before_lower = [at for at, ms in readable if ms < message_ms]
    assert lower <= next((at for at, ms in readable if ms >= message_ms), end)
    if looked_at == 800 or all(is_whole):
        assert lower == max(before_lower, default=first - 1) + 1
        assert upper == max(max((at for at, ms in readable if ms <= message_ms), default=first), first)


@pytest.mark.parametrize("rotted", [range(4, 10), range(6), range(2, 5), range(10)])
def test_no_message_that_can_be_read_is_passed_over(rotted: range) -> None:
    stand = StoreStand()
    stand.open()
    for number in range(10):
        stand.append(b"%d" % number, stored_ms=100 * number + 100)
    stand.store.commit()
    positions = [entry.log_position for entry in stand.store.entries(stand.store.queue("orders", 0), 0, 10)]
    stand.store.close()
    for number in rotted:
        stand.disk.rot(LOG, positions[number] + 60)
    stand.open_on(stand.files)
    queue = stand.store.queue("orders", 0)
    whole = [number for number in range(10) if number not in rotted]
    for message_ms in range(50, 1_150, 50):
        found = stand.store.search_offset(queue, MessageMs(message_ms), Boundary.LOWER)
        assert [number for number in whole if number >= found] == [
            number for number in whole if 100 * number + 100 >= message_ms
        ]
