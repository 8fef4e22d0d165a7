"""What is delivered when, over levels that are lists."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from staticfire.broker.delay.queue import DelayQueue
from staticfire.broker.delay.stored_form import Mark
from staticfire.broker.store.outcomes import Entry
from staticfire.protocol.times import MessageMs

DELAYS_MS = (1_000, 5_000, 10_000)


class Levels:
    """Entries by level; the first so many are gone."""

    def __init__(self, levels: int = len(DELAYS_MS)) -> None:
        self.dues = {level: list[int]() for level in range(1, levels + 1)}
        self.first = 0
        self.read = 0

    def end(self, level: int) -> int:
        return len(self.dues[level])

    def bounds(self, level: int) -> tuple[int, int]:
        return min(self.first, len(self.dues[level])), len(self.dues[level])

    def entries(self, level: int, offset: int, count: int) -> Sequence[Entry]:
        assert offset >= self.bounds(level)[0]
        self.read += count
        return [Entry(level, 100, due_ms) for due_ms in self.dues[level][offset : offset + count]]

    def head(self, level: int, offset: int) -> Entry | None:
        return next(iter(self.entries(level, offset, 1)), None)


@pytest.fixture
def levels() -> Levels:
    return Levels()


@pytest.fixture
def queue(levels: Levels) -> DelayQueue:
    return DelayQueue(DELAYS_MS, levels)


def deliver(queue: DelayQueue, message_ms: int, limit: int = 100) -> list[tuple[int, int]]:
    """Deliver everything that is due, in slices; return levels and offsets."""
    delivered = []
    while due := queue.due(MessageMs(message_ms), limit):
        assert len(due) <= limit
        for entry in due:
            queue.delivered(entry.level, entry.offset)
            delivered.append((entry.level, entry.offset))
    return delivered


def test_empty_levels_have_nothing_due(queue: DelayQueue) -> None:
    assert queue.next_due_ms(MessageMs(0)) is None
    assert queue.due(MessageMs(10**12), 10) == []


def test_the_earliest_head_is_next(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[2] += [5_100, 5_300]
    assert queue.next_due_ms(MessageMs(500)) == 5_100
    levels.dues[1] += [1_200]
    assert queue.next_due_ms(MessageMs(500)) == 1_200
    assert deliver(queue, 1_199) == []
    assert deliver(queue, 1_200) == [(1, 0)]
    assert deliver(queue, 5_299) == [(2, 0)]
    assert queue.next_due_ms(MessageMs(5_299)) == 5_300


def test_a_head_that_retention_has_removed_is_not_due_for_ever(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000, 1_500]
    assert queue.next_due_ms(MessageMs(500)) == 1_000
    levels.first = 1
    assert deliver(queue, 2_000) == [(1, 1)]
    levels.dues[1] += [3_000]
    assert queue.next_due_ms(MessageMs(2_000)) == 3_000
    levels.first = 3
    assert queue.next_due_ms(MessageMs(4_000)) is None


def test_what_was_read_and_isnt_due_yet_isnt_read_again(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += range(1_000, 1_100)
    assert [deliver(queue, message_ms) for message_ms in range(1_000, 1_050)] == [[(1, n)] for n in range(50)]
    heads = 51
    assert levels.read - heads <= 100
    assert deliver(queue, 2_000) == [(1, n) for n in range(50, 100)]


def test_entries_that_were_repaired_are_read_again(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000, 1_001, 2_500]
    assert deliver(queue, 1_000) == [(1, 0)]
    levels.dues[1][1:] = [1_400, 1_400]
    queue.read_anew()
    assert queue.next_due_ms(MessageMs(1_000)) == 1_400
    assert deliver(queue, 1_400) == [(1, 1), (1, 2)]


def test_what_is_not_noted_as_delivered_is_due_again(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000, 1_000]
    first = queue.due(MessageMs(2_000), 10)
    assert queue.due(MessageMs(2_000), 10) == first
    queue.delivered(1, 0)
    assert [entry.offset for entry in queue.due(MessageMs(2_000), 10)] == [1]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50)), max_size=150), st.integers(1, 40), st.data())
def test_all_is_delivered_once_in_the_order_of_due_times(
    stored: list[tuple[int, int]], limit: int, data: st.DataObject
) -> None:
    levels = Levels()
    message_ms = 0
    for level, later_ms in stored:
        message_ms += later_ms
        levels.dues[level].append(message_ms + DELAYS_MS[level - 1])
    queue = DelayQueue(DELAYS_MS, levels)
    delivered = []
    for at_ms in sorted(data.draw(st.lists(st.integers(0, 20_000), max_size=5))):
        delivered += deliver(queue, message_ms + at_ms, limit)
    assert all(levels.dues[level][offset] <= message_ms + 20_000 for level, offset in delivered)
    delivered += deliver(queue, message_ms + 20_000, limit)
    expected = [(due_ms, level, at) for level, dues in levels.dues.items() for at, due_ms in enumerate(dues)]
    assert delivered == [(level, at) for _, level, at in sorted(expected)]


def test_a_level_whose_delay_became_shorter_keeps_its_order(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[3] += [9_000, 4_000, 12_000]
    assert queue.next_due_ms(MessageMs(3_000)) == 9_000
    assert deliver(queue, 8_999) == []
    assert deliver(queue, 9_000) == [(3, 0), (3, 1)]


def test_a_due_time_further_away_than_the_delay_is_now(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [7_200_000, 1_500]
    assert queue.next_due_ms(MessageMs(1_000)) == 1_000
    assert deliver(queue, 1_000) == [(1, 0)]
    assert deliver(queue, 1_500) == [(1, 1)]


def test_messages_that_retention_took_are_passed_over(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000, 1_001, 1_002]
    levels.first = 2
    assert queue.next_due_ms(MessageMs(500)) == 1_002
    assert deliver(queue, 2_000) == [(1, 2)]


def test_progress_is_kept_also_of_levels_that_are_gone(queue: DelayQueue, levels: Levels) -> None:
    for level in levels.dues:
        levels.dues[level] += [100] * 5
    assert len(deliver(queue, 20_000)) == 15
    fewer = DelayQueue(DELAYS_MS[:1], levels)
    assert fewer.restore(queue.snapshot(77)) == 77
    assert fewer.next_due_ms(MessageMs(0)) is None
    fewer.take_in(Mark(3, 5))
    again = DelayQueue(DELAYS_MS, levels)
    again.restore(fewer.snapshot(78))
    assert [again.offset(level) for level in (1, 2, 3)] == [5, 5, 6]
    assert again.version >= queue.version


def test_a_mark_of_what_is_known_changes_nothing(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000] * 5
    queue.take_in(Mark(1, 3))
    queue.take_in(Mark(1, 1))
    assert queue.offset(1) == 4
    assert queue.waiting() == {1: 1}


def test_offsets_that_cant_be_are_corrected(queue: DelayQueue, levels: Levels) -> None:
    levels.dues[1] += [1_000] * 5
    levels.dues[2] += [5_000] * 5
    queue.restore(b'{"offsetTable":{"1":99}}')
    levels.first = 2
    queue.keep_within_bounds()
    assert (queue.offset(1), queue.offset(2), queue.offset(3)) == (5, 2, 0)


def test_rocketmqs_own_file_is_not_read_as_ours_by_mistake(queue: DelayQueue) -> None:
    with pytest.raises(ValueError, match="malformed"):
        queue.restore(b'{"offsetTable":{1:100,3:7}}')
