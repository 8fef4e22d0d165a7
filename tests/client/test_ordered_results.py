"""What follows from the answers of a listener that consumes in order."""

import pytest

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.ordered_results import (
    OrderedContext,
    OrderedStatus,
    OrderedVerdict,
    decide,
    split_failed,
    suspension_ms,
)
from tests.client.received import received

SUSPEND = OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


@pytest.mark.row("O3")
@pytest.mark.parametrize(
    ("status", "with_auto_commit", "without"),
    [
        (OrderedStatus.SUCCESS, OrderedVerdict.COMMIT, OrderedVerdict.KEEP),
        (OrderedStatus.COMMIT, OrderedVerdict.COMMIT, OrderedVerdict.COMMIT),
        (OrderedStatus.ROLLBACK, OrderedVerdict.COMMIT, OrderedVerdict.ROLL_BACK),
        (SUSPEND, OrderedVerdict.SUSPEND, OrderedVerdict.SUSPEND),
    ],
)
def test_each_answer(status: OrderedStatus, with_auto_commit: OrderedVerdict, without: OrderedVerdict) -> None:
    assert decide(status, auto_commit=True) is with_auto_commit
    assert decide(status, auto_commit=False) is without


@pytest.mark.row("O4")
@pytest.mark.parametrize(
    ("asked_ms", "settings_ms", "waited_ms"),
    [(-1, 1_000, 1_000), (-1, 5, 10), (-1, 60_000, 30_000), (200, 1_000, 200), (0, 1_000, 10), (99_999, 1, 30_000)],
)
def test_a_suspension_lasts_10_ms_to_30_s(asked_ms: int, settings_ms: int, waited_ms: int) -> None:
    context = OrderedContext(MessageQueue("orders", "broker-a", 0))
    context.suspend_current_queue_time_ms = asked_ms
    assert suspension_ms(context, settings_ms) == waited_ms


@pytest.mark.row("O4")
def test_each_message_has_its_own_tries() -> None:
    fresh, tired = received(1, reconsume_times=1), received(2, reconsume_times=2)
    assert split_failed((fresh, tired), 2) == ([fresh], [tired])
