"""Promises about recalls, resets, keys, closed queues and members' own offsets: what is reported, what is excused."""

import pytest

from staticfire.client import MessageModel
from staticfire.simulation.checkers.administration import ForbiddenKept, ResetsCarriedOut
from staticfire.simulation.checkers.broadcast import ReachesEach
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    FaultBegan,
    FaultEnded,
    OffsetsReset,
    PermissionRestored,
    PermissionWithdrawn,
    ProcessBegan,
    ProcessEnded,
    RecallBegan,
    RecallEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.exchanges import RecallsKept
from staticfire.simulation.checkers.placing import KeyKeepsQueue
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

ORDERS = Workload([Topic("orders")], [Producers("orders", name="web")], [Group("billing", "orders")])
NEWS = Workload(
    ORDERS.topics, ORDERS.producers, [Group("news", "orders", settings={"message_model": MessageModel.BROADCASTING})]
)
FROZEN = [FaultBegan(65_000, "freeze broker", "broker-a"), FaultEnded(66_000, "freeze broker", "broker-a")]


def sent(at_ms: int, queue_id: int = 0, offset: int = 0, due_ms: int = 0, key: int = -1) -> list[RunEvent]:
    name = f"web-1/{at_ms}"
    begun = SendBegan(at_ms, name, "orders", due_ms, key=key)
    return [begun, SendAcknowledged(at_ms + 5, name, ("broker-a", "orders", queue_id), offset, 0)]


@pytest.mark.parametrize(
    ("ended_ms", "between", "is_said"), [(70_000, [], True), (99_500, [], False), (70_000, FROZEN, False)]
)
def test_a_recall_is_refused_only_when_it_is_too_late(ended_ms: int, between: list[RunEvent], is_said: bool) -> None:
    recall = [RecallBegan(69_000, "web-1/60000"), RecallEnded(ended_ms, "web-1/60000", "refused")]
    assert bool(said(RecallsKept(ORDERS), [*sent(60_000, due_ms=100_000), *between, *recall])) is is_said


@pytest.mark.parametrize(("first", "is_said"), [(0, True), (1, False), (2, True)])
def test_a_reset_begins_with_the_first_message_of_its_time(first: int, is_said: bool) -> None:
    reset = OffsetsReset(90_000, "billing", "orders", 89_000, 70_000, {("broker-a", "orders", 0): first})
    assert bool(said(ResetsCarriedOut(ORDERS), [*sent(60_000), *sent(80_000, offset=1), reset])) is is_said


@pytest.mark.parametrize(("between", "is_said"), [([], True), (FROZEN, False)])
def test_a_key_keeps_its_queue_while_nothing_changes(between: list[RunEvent], is_said: bool) -> None:
    begun: list[RunEvent] = [ProcessBegan(0, "broker-a"), ProcessBegan(30_000, "web-1")]
    events = [*begun, *sent(60_000, 1, key=3), *between, *sent(70_000, 2, key=3)]
    assert bool(said(KeyKeepsQueue(ORDERS), events)) is is_said
    assert not said(KeyKeepsQueue(ORDERS), [*begun, *sent(60_000, 1, key=3), *sent(70_000, 2, key=4)])


def test_queues_that_are_closed_are_not_written_to_once_producers_know() -> None:
    closed = PermissionWithdrawn(60_000, "writing queues", "orders", 2)
    for at_ms, queue_id, is_said in ((90_000, 2, False), (110_000, 1, False), (110_000, 2, True)):
        assert bool(said(ForbiddenKept(ORDERS), [closed, *sent(at_ms, queue_id)])) is is_said
    opened = (PermissionRestored(100_000, "writing queues", "orders"), FaultBegan(100_000, "add queues", "orders"))
    for event in opened:
        assert not said(ForbiddenKept(ORDERS), [closed, event, *sent(110_000, 2)])


@pytest.mark.parametrize(
    ("consumed_ms", "between", "is_said"),
    [
        (80_000, [], True),
        (86_000, [], False),
        (80_000, [FaultBegan(81_000, "freeze member", "news-1")], False),
        (80_000, [FaultBegan(81_000, "reset offsets", "news")], False),
    ],
)
def test_a_member_gets_again_only_what_its_file_has_not(
    consumed_ms: int, between: list[RunEvent], is_said: bool
) -> None:
    place, seen = ("broker-a", "orders", 0), (Seen("web-1/1", 0, 0, False),)
    events = [
        BroadcastReceived(consumed_ms, "news", "news-1", place, seen), *between,
        ProcessEnded(90_000, "news-1", "killed"), ProcessBegan(91_000, "news-1"),
        BroadcastReceived(92_000, "news", "news-1", place, seen),
    ]  # fmt: skip
    assert bool(said(ReachesEach(NEWS), events)) is is_said
