"""What a queue's messages in work allow to be committed."""

import pytest
from hypothesis import given, strategies as st

from staticfire.client.consume.queues.process_queue import ProcessQueue
from tests.client.received import received, several


def holding(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue()
    queue.put(several(*offsets))
    return queue


@pytest.mark.row("C8")
def test_the_smallest_that_is_held_is_committed() -> None:
    queue = holding(10, 20, 21, 23)
    assert queue.remove(several(20)) == 10
    assert queue.remove(several(10)) == 21
    assert queue.remove(several(23)) == 21
    assert queue.remove(several(21)) == 24


@pytest.mark.row("C8")
def test_a_stuck_message_holds_the_offset_back() -> None:
    queue = holding(*range(2101, 2201))
    for offset in range(2102, 2201):
        assert queue.remove(several(offset)) == 2101
    assert queue.remove(several(2101)) == 2201


@pytest.mark.row("C8")
def test_nothing_held_is_nothing_to_commit() -> None:
    assert holding().remove(several(1)) == -1
    queue = holding(1)
    queue.clear()
    assert queue.remove(several(1)) == -1


def test_what_a_pull_left_out_counts_as_done() -> None:
    queue = ProcessQueue()
    queue.put(several(3, 5), next_offset=9)
    assert queue.remove(several(5)) == 3
    assert queue.remove(several(3)) == 9


def test_a_pull_that_found_nothing_moves_the_end() -> None:
    queue = holding(3)
    queue.advance(7)
    queue.advance(5)
    assert queue.remove(several(3)) == 7


def test_counts_bytes_and_span() -> None:
    queue = ProcessQueue()
    assert (len(queue), queue.bytes, queue.span, queue.smallest_offset) == (0, 0, 0, None)
    queue.put([received(4, b"four"), received(9, b"nine!")])
    assert (len(queue), queue.bytes, queue.span, queue.smallest_offset) == (2, 9, 5, 4)
    assert received(4) in queue
    queue.remove(several(4))
    assert (len(queue), queue.bytes, queue.span, queue.smallest_offset) == (1, 5, 0, 9)
    assert received(4) not in queue


def test_what_comes_again_is_taken_once() -> None:
    queue = holding(5, 6, 9)
    new = queue.put(several(4, 5, 6, 7))
    assert [message.queue_offset for message in new] == [4, 7]
    assert (len(queue), queue.bytes, queue.span) == (5, 5, 5)
    assert queue.remove(several(4, 5)) == 6
    assert queue.remove(several(6, 7, 9)) == 10


@given(st.lists(st.tuples(st.lists(st.integers(0, 30), unique=True, max_size=8), st.integers(0, 10**6)), max_size=12))
def test_never_commits_past_a_message_in_work(steps: list[tuple[list[int], int]]) -> None:
    """Pulls go on where the last one ended; messages end in any order."""
    queue = ProcessQueue()
    held: list[int] = []
    end = committed = 0
    for gaps, chance in steps:
        offsets = [end + gap for gap in sorted(gaps)]
        queue.put(several(*offsets))
        held += offsets
        end = max([end, *(offset + 1 for offset in offsets)])
        done = held[chance % (len(held) + 1) :]
        held = held[: chance % (len(held) + 1)]
        result = queue.remove(several(*done))
        if result >= 0:
            assert result == (min(held) if held else end)
            assert result >= committed
            committed = result
        assert len(queue) == queue.bytes == len(held)
