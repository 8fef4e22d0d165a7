"""Groups that join when there are messages, programs that send many at once: both do it, and it comes to rest."""

import pytest

from staticfire.simulation.checkers.ending import TablesComeBack
from staticfire.simulation.checkers.events import (
    CallBegan,
    ProcessBegan,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    TablesSeen,
)
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

HOURS = 0.006


def events_of(producers: Producers, group: Group) -> list[RunEvent]:
    outcome = play(Workload([Topic("orders", 2)], [producers], [group]), Play(1, HOURS, keeps_events=True))
    assert outcome.passed, str(outcome)
    return list(outcome.events)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_late_group_gets_what_was_there_before(ordered: bool) -> None:
    events = events_of(Producers("orders", 5), Group("audit", "orders", 2, ordered, joins_after_seconds=10.0))
    began_ms = min(event.at_ms for event in events if isinstance(event, ProcessBegan) and event.who == "audit-1")
    sent = [event for event in events if isinstance(event, SendAcknowledged) and event.at_ms < began_ms]
    got = {seen.name for event in events if isinstance(event, CallBegan) for seen in event.messages}
    assert len(sent) > 10
    assert got.issuperset(event.name for event in sent)


@pytest.mark.parametrize(("before", "is_said"), [({}, False), ({"connections": 0}, True)], ids=["later", "before"])
def test_tables_of_a_process_that_begins_later_have_grown_if_they_do_after_that(
    before: dict[str, int], is_said: bool
) -> None:
    checker = TablesComeBack(Workload([Topic("orders", 2)], [Producers("orders", 5)], [Group("audit", "orders")]))
    seen = [TablesSeen(at_ms, "audit-1", sizes) for at_ms, sizes in enumerate([before, *[{"connections": 7}] * 2])]
    assert bool(said(checker, seen)) is is_said


def test_many_are_sent_at_once() -> None:
    events = events_of(Producers("orders", 5, at_once=10), Group("billing", "orders"))
    times = [event.at_ms for event in events if isinstance(event, SendBegan)]
    acknowledged = [event for event in events if isinstance(event, SendAcknowledged)]
    assert len(acknowledged) == len(times) >= 50
    assert all(times.count(at_ms) == 10 for at_ms in times)
