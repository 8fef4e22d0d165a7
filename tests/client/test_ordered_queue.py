"""What of a queue is taken next, and what may be committed, when it is consumed in order."""

import pytest
from hypothesis import given, strategies as st

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.ordered_queue import NOT_LOCKED, OrderedQueue
from staticfire.protocol.times import UptimeMs
from tests.client.received import several

QUEUE = MessageQueue("orders", "broker-a", 0)


def holding(*offsets: int) -> OrderedQueue:
    queue = OrderedQueue(QUEUE, UptimeMs(0))
    queue.put(several(*offsets))
    return queue


def take(queue: OrderedQueue, count: int) -> list[int]:
    return [message.queue_offset for message in queue.take(count)]


@pytest.mark.row("O2")
def test_messages_are_taken_in_order_also_when_more_arrive() -> None:
    queue = holding(1, 2, 3)
    assert take(queue, 2) == [1, 2]
    queue.put(several(4, 5))
    assert take(queue, 2) == [3, 4]
    assert take(queue, 2) == [5]
    assert take(queue, 2) == []


@pytest.mark.row("O3")
def test_what_was_taken_is_committed_up_to_the_largest() -> None:
    queue = holding(1, 2, 3)
    take(queue, 1)
    take(queue, 1)
    assert queue.commit() == 3
    assert queue.commit() == -1
    take(queue, 1)
    assert (queue.commit(), len(queue), queue.bytes) == (4, 0, 0)


@pytest.mark.row("O3")
def test_a_roll_back_brings_everything_back_to_its_place() -> None:
    queue = holding(1, 2, 3, 4)
    take(queue, 2)
    take(queue, 1)
    queue.roll_back()
    assert (queue.commit(), take(queue, 9)) == (-1, [1, 2, 3, 4])


@pytest.mark.row("O4")
def test_what_is_put_back_comes_first_again() -> None:
    queue = holding(1, 2, 3, 4)
    take(queue, 1)
    second = queue.take(2)
    queue.put_back(second)
    assert take(queue, 2) == [2, 3]


@pytest.mark.row("O4")
def test_nothing_that_waits_is_passed_by_a_commit() -> None:
    queue = holding(1, 2, 3)
    first, _ = queue.take(2)
    queue.put_back([first])
    assert queue.commit() == 1
    assert take(queue, 2) == [1, 3]
    assert queue.commit() == 4


def test_a_pull_that_went_back_fills_gaps_and_repeats_nothing() -> None:
    queue = holding(3, 4)
    assert take(queue, 1) == [3]
    assert [message.queue_offset for message in queue.put(several(1, 2, 3, 4, 5))] == [1, 2, 5]
    assert take(queue, 9) == [1, 2, 4, 5]
    assert queue.commit() == 6


def test_a_queue_that_was_cleared_takes_nothing_back() -> None:
    queue = holding(1, 2)
    taken = queue.take(1)
    queue.clear()
    queue.put_back(taken)
    assert (queue.waiting, queue.commit()) == (0, -1)


@pytest.mark.row("O1")
def test_without_a_sure_lock_nothing_is_pulled_or_consumed() -> None:
    queue = holding(1)
    assert queue.may_consume(UptimeMs(10**12)), "broadcasting needs no lock"
    queue.locked_until_ms = 30_000
    assert queue.may_consume(UptimeMs(29_999))
    assert queue.may_pull(UptimeMs(29_999))
    assert not queue.may_consume(UptimeMs(30_000))
    assert not queue.may_pull(UptimeMs(30_000))
    queue.locked_until_ms = NOT_LOCKED
    assert not queue.may_pull(UptimeMs(0))


@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(["take", "commit", "back", "roll back"]), st.integers(1, 4)), max_size=30),
)
def test_whatever_happens_what_is_committed_was_taken_and_each_is_held_once(
    pulls: list[set[int]], steps: list[tuple[str, int]]
) -> None:
    queue = OrderedQueue(QUEUE, UptimeMs(0))
    pulled: set[int] = set()
    taken: list[int] = []
    done: set[int] = set()
    for offsets in pulls:
        queue.put(several(*sorted(offsets - done)))
        pulled |= offsets
    for step, count in steps:
        if step == "take":
            new = take(queue, count)
            assert new == sorted(pulled - done - set(taken))[:count]
            taken += new
        elif step == "commit":
            offset = queue.commit()
            done |= set(taken)
            taken = []
            assert offset == -1 or offset <= min(pulled - done, default=offset)
        elif step == "back":
            back = taken[-count:]
            queue.put_back(several(*back))
            taken = taken[: len(taken) - len(back)]
        else:
            queue.roll_back()
            taken = []
        assert len(queue) == len(pulled - done)
