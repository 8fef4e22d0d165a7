"""What of a queue is taken next, and what may be committed, when it is consumed in order."""

import pytest
from hypothesis import given, strategies as st

from staticfire.client.consume.queues.held_lock import HeldLock
from staticfire.client.consume.queues.ordered_policy import OrderedPolicy
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs
from tests.client.received import several


class Held:
    """A cache and its policy."""

    def __init__(self) -> None:
        self.cache = ProcessQueue()
        self.policy = OrderedPolicy(self.cache, lock=None)
        self.take, self.commit = self.policy.take, self.policy.commit
        self.put_back, self.roll_back = self.policy.put_back, self.policy.roll_back

    def put(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        new = self.cache.put(messages)
        self.policy.pulled(new, UptimeMs(0))
        return new


def holding(*offsets: int) -> Held:
    queue = Held()
    queue.put(several(*offsets))
    return queue


def take(queue: Held, count: int) -> list[int]:
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
    assert (queue.commit(), len(queue.cache), queue.cache.bytes) == (4, 0, 0)


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
    queue.cache.clear()
    queue.put_back(taken)
    assert take(queue, 1) == [2], "it was dropped: nobody asks any more"
    assert queue.commit() == -1


@pytest.mark.row("O1")
def test_a_lock_is_trusted_for_half_as_long_as_its_broker_keeps_it() -> None:
    lock = HeldLock(live_ms=30_000, requested_ms=UptimeMs(1_000))
    assert lock.is_trusted(UptimeMs(30_999))
    assert not lock.is_trusted(UptimeMs(31_000))
    assert lock.is_sure(UptimeMs(60_999))
    assert not lock.is_sure(UptimeMs(61_000))
    lock.granted(UptimeMs(70_000))
    assert lock.is_trusted(UptimeMs(99_999))
    lock.lost()
    assert not lock.is_trusted(UptimeMs(0))
    assert not lock.is_sure(UptimeMs(0))


@pytest.mark.row("O1")
def test_broadcasting_needs_no_lock() -> None:
    policy = holding(1).policy
    policy.lock_lost()
    assert policy.is_trusted(UptimeMs(10**12))
    assert policy.is_sure(UptimeMs(10**12))


@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(["take", "commit", "back", "roll back"]), st.integers(1, 4)), max_size=30),
)
def test_whatever_happens_what_is_committed_was_taken_and_each_is_held_once(
    pulls: list[set[int]], steps: list[tuple[str, int]]
) -> None:
    queue = Held()
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
        assert len(queue.cache) == len(pulled - done)
