"""In which queue a message lies that had to wait, and how soon a half message may be put aside."""

import pytest

from staticfire.simulation.checkers.events import (
    FaultBegan,
    MessageFound,
    NotSettled,
    ProcessEnded,
    QueuePlace,
    RecallBegan,
    RecallEnded,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.placing import ChecksOften, InItsQueue
from staticfire.simulation.workload import Brokers, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

REPORTED: QueuePlace = ("broker-a", "orders", 1)
SENT: list[RunEvent] = [
    SendBegan(60_000, "web-1/1", "orders", 65_000),
    SendAcknowledged(60_010, "web-1/1", REPORTED, 0, 0),
]


def found(broker: str, topic: str, queue_id: int, at_ms: int = 900_000) -> MessageFound:
    return MessageFound(at_ms, "web-1/1", (broker, topic, queue_id), 0)


REFUSED = RecallEnded(61_001, "web-1/1", "refused")


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([found(*REPORTED)], False),
        ([found("broker-a", "orders", 0)], True),
        ([found("broker-a", "orders", 0), found(*REPORTED)], False),
        ([found("broker-b", "orders", 0)], False),
        ([found("broker-a", "%RETRY%billing", 0)], False),
        ([ProcessEnded(70_000, "broker-a", "killed"), found("broker-a", "orders", 0)], False),
        ([ProcessEnded(50_000, "broker-a", "killed"), found("broker-a", "orders", 0)], True),
        ([ProcessEnded(70_000, "broker-a", "stopped"), found("broker-a", "orders", 0)], True),
        ([RecallBegan(61_000, "web-1/1"), found("broker-a", "orders", 0)], False),
        ([RecallBegan(61_000, "web-1/1"), REFUSED, found("broker-a", "orders", 0)], True),
        ([NotSettled(800_000, ()), found("broker-a", "orders", 0)], False),
    ],
    ids=[
        "where it was told", "another queue", "both", "the other broker has a copy", "a retry", "killed since",
        "killed before", "stopped in order", "called back", "not called back", "it may still wait",
    ],
)  # fmt: skip
def test_a_message_comes_to_its_queue(events: list[RunEvent], is_said: bool) -> None:
    workload = Workload([Topic("orders")], [Producers("orders", name="web")])
    assert bool(said(InItsQueue(workload), sorted([*SENT, *events], key=lambda event: event.at_ms))) is is_said


@pytest.mark.parametrize(
    ("at_ms", "changes", "is_said"), [(200_000, False, True), (900_000, False, False), (200_000, True, False)]
)
def test_a_half_message_is_checked_before_it_is_moved_away(at_ms: int, changes: bool, is_said: bool) -> None:
    """Fifteen times, every 30 s or as an administrator has said."""
    workload = Workload([Topic("orders")], [Producers("orders", name="web")], brokers=Brokers(1))
    changed = [FaultBegan(50_000, "change settings", "broker-a")] if changes else []
    aside = found("broker-a", "TRANS_CHECK_MAX_TIME_TOPIC", 0, at_ms)
    assert bool(said(ChecksOften(workload), [*changed, *SENT, aside])) is is_said
