"""Sharing queues among the members of a group."""

import pytest
from hypothesis import given, strategies as st

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.rebalance.allocation import AVERAGELY, AVERAGELY_BY_CIRCLE, AllocateStrategy
from staticfire.protocol.errors import ClientError

pytestmark = pytest.mark.row("R3")

STRATEGIES: list[AllocateStrategy] = [AVERAGELY, AVERAGELY_BY_CIRCLE]


def queues_of(brokers: int, each: int) -> list[MessageQueue]:
    return [
        MessageQueue("orders", f"broker-{'abcdefgh'[at]}", number) for at in range(brokers) for number in range(each)
    ]


def members(count: int) -> list[str]:
    return sorted(f"10.0.0.{number}@{number}" for number in range(count))


def shares(strategy: AllocateStrategy, queues: list[MessageQueue], count: int) -> list[list[int]]:
    """Return for each member the places of its queues."""
    ids = members(count)
    return [[queues.index(queue) for queue in strategy.allocate("billing", who, queues, ids)] for who in ids]


def test_five_brokers_with_two_queues_among_three() -> None:
    assert shares(AVERAGELY, queues_of(5, 2), 3) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "sizes"),
    [(11, 3, [4, 4, 3]), (10, 2, [5, 5]), (8, 3, [3, 3, 2]), (2, 4, [1, 1, 0, 0]), (4, 4, [1, 1, 1, 1])],
)
def test_blocks_differ_by_one_at_most(queue_count: int, member_count: int, sizes: list[int]) -> None:
    assert [len(share) for share in shares(AVERAGELY, queues_of(1, queue_count), member_count)] == sizes


def test_by_circle_deals_them_out() -> None:
    assert shares(AVERAGELY_BY_CIRCLE, queues_of(5, 2), 3) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_queue_ids_compare_as_numbers() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in (10, 9, 2, 1)]
    assert [queue.queue_id for queue in sorted(queues)] == [1, 2, 9, 10]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@given(queue_count=st.integers(1, 60), member_count=st.integers(1, 70))
def test_every_queue_has_one_owner(strategy: AllocateStrategy, queue_count: int, member_count: int) -> None:
    owned = [place for share in shares(strategy, queues_of(1, queue_count), member_count) for place in share]
    assert sorted(owned) == list(range(queue_count))


@given(queue_count=st.integers(1, 60), member_count=st.integers(1, 70))
def test_blocks_are_rocketmqs(queue_count: int, member_count: int) -> None:
    """The formula of AllocateMessageQueueAveragely, as it stands there."""
    more = queue_count % member_count
    for index, share in enumerate(shares(AVERAGELY, queues_of(1, queue_count), member_count)):
        size = 1 if queue_count <= member_count else queue_count // member_count + (1 if more and index < more else 0)
        start = index * size if more and index < more else index * size + more
        assert share == list(range(start, start + max(0, min(size, queue_count - start))))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_who_is_no_member_gets_nothing(strategy: AllocateStrategy) -> None:
    assert strategy.allocate("billing", "10.0.0.9@9", queues_of(1, 4), members(2)) == []


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_nothing_to_share_is_an_error(strategy: AllocateStrategy) -> None:
    for who, queues, ids in [("", queues_of(1, 1), ["a"]), ("a", [], ["a"]), ("a", queues_of(1, 1), [])]:
        with pytest.raises(ClientError, match="nothing to share"):
            strategy.allocate("billing", who, queues, ids)
