"""From the queues that are held to those that are assigned."""

import pytest
from hypothesis import given, strategies as st

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.rebalance_loop import plan_rebalance
from staticfire.protocol.times import UptimeMs

IDLE_MS_MAX = 120_000
NOW_MS = UptimeMs(1_000_000)


def queues(*numbers: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "broker-a", number) for number in numbers]


def held(*numbers: int) -> dict[MessageQueue, UptimeMs]:
    return dict.fromkeys(queues(*numbers), NOW_MS)


@pytest.mark.row("R4")
def test_what_is_no_longer_mine_is_dropped_and_what_is_new_is_taken() -> None:
    plan = plan_rebalance(held(0, 1, 2), queues(1, 2, 3, 4), NOW_MS, IDLE_MS_MAX)
    assert plan == (queues(0), queues(3, 4))


def test_nothing_changes_when_nothing_has_changed() -> None:
    assert plan_rebalance(held(0, 1), queues(0, 1), NOW_MS, IDLE_MS_MAX) == ([], [])


@pytest.mark.row("R5")
def test_a_queue_whose_pull_has_stalled_is_dropped_and_taken_again() -> None:
    pulled = {queues(0)[0]: UptimeMs(NOW_MS - 120_001), queues(1)[0]: UptimeMs(NOW_MS - 120_000)}
    assert plan_rebalance(pulled, queues(0, 1), NOW_MS, IDLE_MS_MAX) == (queues(0), queues(0))


def test_the_order_never_depends_on_sets() -> None:
    plan = plan_rebalance(held(9, 3, 10, 1), queues(12, 2, 7), NOW_MS, IDLE_MS_MAX)
    assert plan == (queues(1, 3, 9, 10), queues(2, 7, 12))


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_carried_out_it_leads_to_what_is_assigned(mine: set[int], assigned: set[int], stalled: set[int]) -> None:
    pulled = held(*mine) | dict.fromkeys(queues(*(mine & stalled)), UptimeMs(0))
    plan = plan_rebalance(pulled, queues(*assigned), NOW_MS, IDLE_MS_MAX)
    after = (pulled.keys() - set(plan.drop)) | set(plan.take)
    assert after == set(queues(*assigned))
    assert set(plan.take) & pulled.keys() <= set(plan.drop)
