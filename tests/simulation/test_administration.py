"""What administrators do while a simulated cluster works, and what their checkers say."""

from collections.abc import Callable

import pytest

from staticfire.simulation.checkers import Checker
from staticfire.simulation.checkers.administration import ROUTES_KNOWN_MS, ForbiddenKept, ResetsCarriedOut
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    OffsetsReset,
    PermissionRestored,
    PermissionWithdrawn,
    QueuesAdded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from staticfire.simulation.workload.strikes import ADMINISTRATION, Strike
from tests.cases import first_and_slow

pytestmark = pytest.mark.row("S3")

PLACE = ("broker-a", "orders", 0)
WORKLOAD = Workload(
    [Topic("orders", 2)],
    [Producers("orders", 4)],
    [Group("billing", "orders", members=2), Group("shipping", "orders", members=2, ordered=True)],
)
TARGETS = {"switch off group": "billing", "reset offsets": "shipping", "change settings": "broker-a"}
LOOKS: dict[str, Callable[[list[RunEvent]], bool]] = {
    "add queues": lambda events: any(isinstance(event, QueuesAdded) and event.queues > 2 for event in events),
    "reset offsets": lambda events: any(isinstance(event, OffsetsReset) for event in events),
    **dict.fromkeys(
        ("forbid writing", "forbid reading", "switch off group"),
        lambda events: any(isinstance(event, PermissionWithdrawn) for event in events),
    ),
}


@pytest.mark.parametrize("kind", first_and_slow(ADMINISTRATION))
def test_a_cluster_comes_to_rest_after_what_an_administrator_does(kind: str) -> None:
    strike = Strike(15_000, kind, TARGETS.get(kind, "orders"), lasts_ms=50_000)
    outcome = play(WORKLOAD, Play(1, 0.03, strikes=[strike], keeps_events=True))
    assert outcome.passed, outcome
    assert outcome.states[kind] == 1
    assert LOOKS.get(kind, bool)(outcome.events)


@pytest.mark.parametrize(
    "other", first_and_slow(["forbid writing", "forbid reading", "fewer write queues", "fewer read queues"])
)
def test_a_topic_is_not_written_to_until_the_last_that_forbids_it_ends(other: str) -> None:
    strikes = [Strike(15_000, "forbid writing", "orders", 100_000), Strike(25_000, other, "orders", 20_000)]
    outcome = play(WORKLOAD, Play(1, 0.05, strikes=strikes, keeps_events=True))
    assert outcome.passed, outcome
    withdrawn = [event for event in outcome.events if isinstance(event, PermissionWithdrawn | PermissionRestored)]
    first, last = withdrawn[0].at_ms, withdrawn[-1].at_ms
    assert last - first >= 100_000
    stored_ms = [event.at_ms for event in outcome.events if isinstance(event, SendAcknowledged)]
    assert min(stored_ms) < first
    assert max(stored_ms) > last
    assert not [at_ms for at_ms in stored_ms if first + ROUTES_KNOWN_MS < at_ms < last]


def test_a_group_stays_off_until_the_last_that_switched_it_off_ends() -> None:
    strikes = [
        Strike(at_ms, "switch off group", "billing", lasts_ms)
        for at_ms, lasts_ms in ((15_000, 70_000), (25_000, 20_000))
    ]
    outcome = play(WORKLOAD, Play(1, 0.05, strikes=strikes, keeps_events=True))
    assert outcome.passed, outcome
    first, *_, last = [
        event.at_ms for event in outcome.events if isinstance(event, PermissionWithdrawn | PermissionRestored)
    ]
    called_ms = [event.at_ms for event in outcome.events if isinstance(event, CallBegan) and event.group == "billing"]
    assert min(called_ms) < first
    assert max(called_ms) > last
    assert not [at_ms for at_ms in called_ms if first + ROUTES_KNOWN_MS < at_ms < last]


def said(checker: Checker, events: list[RunEvent]) -> bool:
    for event in events:
        checker.see(event)
    checker.finish()
    return bool(checker.violations)


def consumed(at_ms: int, name: str = "web/1") -> list[RunEvent]:
    seen = (Seen(name, 0, 0, False),)
    return [CallBegan(at_ms, at_ms, "billing", "billing-1", PLACE, seen), CallEnded(at_ms + 1, at_ms, True)]


SENT_BEFORE, SENT_AFTER = SendBegan(5, "web/1", "orders"), SendBegan(50_100, "web/1", "orders")
ALLOWED = PermissionRestored(50_150, "reading", "orders")
NO_NAMESERVER = FaultBegan(99, "kill nameserver", "")
STORED = SendAcknowledged(50_110, "web/1", PLACE, 0, 0)


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([PermissionWithdrawn(10, "reading", "orders"), SENT_AFTER, *consumed(50_200)], True),
        ([SENT_BEFORE, PermissionWithdrawn(10, "reading", "orders"), *consumed(50_200)], False),
        ([PermissionWithdrawn(10, "reading", "orders"), SENT_AFTER, ALLOWED, *consumed(50_200)], False),
        ([PermissionWithdrawn(10, "consuming", "billing"), SENT_AFTER, *consumed(50_200)], True),
        ([PermissionWithdrawn(10, "consuming", "shipping"), SENT_AFTER, *consumed(50_200)], False),
        ([PermissionWithdrawn(10, "writing", "orders"), SENT_AFTER, STORED], True),
        ([PermissionWithdrawn(50_000, "writing", "orders"), SENT_AFTER, STORED], False),
        ([PermissionWithdrawn(10, "writing", "orders"), NO_NAMESERVER, SENT_AFTER, STORED], False),
    ],
    ids=[
        "new, and read", "pulled before", "allows them again", "the group is off", "another group is off", "written",
        "producers don't know yet", "producers can't know",
    ],
)  # fmt: skip
def test_what_is_forbidden_does_not_happen(events: list[RunEvent], is_said: bool) -> None:
    assert said(ForbiddenKept(WORKLOAD), events) is is_said


STORED_AT_10 = [SendBegan(9, "web/1", "orders"), SendAcknowledged(10, "web/1", PLACE, 0, 0)]


@pytest.mark.parametrize(
    ("reset", "between", "is_said"),
    [
        (OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 0}), [], True),
        (OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 0}), consumed(200), False),
        (OffsetsReset(100, "billing", "orders", 99, 50, {PLACE: 1}), [], False),
        (OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 1}), [], True),
        (OffsetsReset(100, "shipping", "orders", 99, 5, {PLACE: 0}), [], False),
        (
            OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 0}),
            [FaultBegan(200, "freeze broker", "broker-a"), FaultEnded(300, "freeze broker", "broker-a")],
            False,
        ),
        (
            OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 0}),
            [FaultBegan(200, "kill member", "billing-1"), FaultEnded(300, "kill member", "billing-1")],
            True,
        ),
    ],
    ids=["lost", "consumed again", "older than that", "it begins too late", "another group", "excused", "no excuse"],
)
def test_what_is_reset_comes_again(reset: OffsetsReset, between: list[RunEvent], is_said: bool) -> None:
    assert said(ResetsCarriedOut(WORKLOAD), [*STORED_AT_10, *consumed(20), reset, *between]) is is_said


@pytest.mark.parametrize(("again_ms", "is_said"), [(98, True), (99, False)], ids=["before", "before the answer"])
def test_what_is_reset_may_come_before_the_administrator_gets_the_answer(again_ms: int, is_said: bool) -> None:
    reset = OffsetsReset(100, "billing", "orders", 99, 5, {PLACE: 0})
    assert said(ResetsCarriedOut(WORKLOAD), [*STORED_AT_10, *consumed(20), *consumed(again_ms), reset]) is is_said
