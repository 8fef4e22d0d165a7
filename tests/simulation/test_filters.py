"""Groups that want some messages only: the conditions' two faces agree, and the checker notices what doesn't."""

from itertools import product

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.protocol.properties import format_properties
from staticfire.protocol.sql92.filters import compile_filter
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendBegan,
)
from staticfire.simulation.checkers.filters import FiltersKept
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.runs.swarm_kinds import CONDITIONS, PROPERTIES, TAGS
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from staticfire.simulation.workload.conditions import Above, Condition, OneOf

pytestmark = pytest.mark.row("S3")

PLACE = ("broker-a", "orders", 0)
ALL_PROPERTIES = [
    {name: value for name, value in zip(PROPERTIES, values, strict=True) if value}
    for values in product(*PROPERTIES.values())
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.text)
def test_brokers_read_a_condition_as_its_checker_does(condition: Condition) -> None:
    compiled = compile_filter(condition.text)
    wanted = [condition.holds(properties) is True for properties in ALL_PROPERTIES]
    assert [compiled.matches(format_properties(properties)) for properties in ALL_PROPERTIES] == wanted
    assert len(set(wanted)) == 2  # It chooses.


def workload_with(group: Group) -> Workload:
    return Workload([Topic("orders")], [Producers("orders", 5, tags=TAGS, properties=PROPERTIES)], [group])


RED = workload_with(Group("billing", "orders", expression="red || BB"))
RICH = workload_with(Group("billing", "orders", condition=Above("amount", 30)))


@pytest.mark.parametrize(
    ("workload", "tag", "amount", "is_consumed", "is_said"),
    [
        (RED, "red", "", True, False),
        (RED, "red", "", False, True),
        (RED, "Aa", "", True, True),
        (RED, "Aa", "", False, False),
        (RED, "", "", True, True),
        (RICH, "red", "40", True, False),
        (RICH, "red", "40", False, True),
        (RICH, "red", "1", True, True),
        (RICH, "red", "", True, True),
        (RICH, "red", "1", False, False),
    ],
)
def test_what_matches_comes_and_nothing_else(
    workload: Workload, tag: str, amount: str, is_consumed: bool, is_said: bool
) -> None:
    properties = (("amount", amount),) if amount else ()
    events: list[RunEvent] = [SendBegan(1, "web/1", "orders", 0, False, tag, properties)]
    if is_consumed:
        call = CallBegan(2, 1, "billing", "billing-1", PLACE, (Seen("web/1", 0, 0, False),))
        events += [call, CallEnded(3, 1, True)]
    checker = FiltersKept(workload)
    for event in [*events, MessageFound(9, "web/1", PLACE, 0)]:
        checker.see(event)
    checker.finish()
    assert bool(checker.violations) is is_said


@pytest.mark.parametrize(
    ("committed", "offset", "is_said"),
    [(0, 0, False), (0, 3, False), (0, 4, True), (6, 5, False), (6, 6, True)],
)
@pytest.mark.parametrize("how", ["failed over", "killed"])
def test_offsets_that_a_group_had_passed_before_its_queue_became_shorter(
    how: str, committed: int, offset: int, is_said: bool
) -> None:
    """It got a message, or it passed others that don't match, and committed."""
    checker = FiltersKept(RED)
    for event in (
        ProcessBegan(0, "billing-1"),
        ProcessBegan(0, "broker-a"),
        SendBegan(1, "web/1", "orders", 0, False, "red", ()),
        SendBegan(1, "web/2", "orders", 0, False, "red", ()),
        CallBegan(2, 1, "billing", "billing-1", PLACE, (Seen("web/1", 3, 0, False),)),
        CallEnded(3, 1, True),
        OffsetSeen(3, "billing", PLACE, committed, 7, 1),
        ProcessEnded(4, "broker-a", how, 0),
        ProcessBegan(5, "broker-a"),
        MessageFound(9, "web/2", PLACE, offset),
    ):
        checker.see(event)
    checker.finish()
    assert bool(checker.violations) is (is_said or how == "killed")


@pytest.mark.parametrize("workload", [RED, RICH], ids=["tags", "a condition"])
def test_a_group_with_a_filter_comes_to_rest(workload: Workload) -> None:
    outcome = play(workload, Play(1, 0.006, keeps_events=True))
    assert outcome.passed, outcome
    calls = [event for event in outcome.events if isinstance(event, CallBegan)]
    sends = [event for event in outcome.events if isinstance(event, SendBegan)]
    assert 0 < len(calls) < len(sends)


def test_a_quote_in_a_condition_is_refused() -> None:
    with pytest.raises(UsageError, match="quote"):
        OneOf("region", ("it's",))
