"""Groups that want some messages only: the conditions' two faces agree, and the checker notices what doesn't."""

from itertools import product

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.protocol.properties import format_properties
from staticfire.protocol.sql92.filters import compile_filter
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    MasterSeen,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
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


def is_reported(*events: RunEvent, how: str = "failed over", offset: int = 5) -> bool:
    """Return whether it is reported that web/2, found at an offset, wasn't consumed after its queue became shorter."""
    everything = [
        ProcessBegan(0, "billing-1"),
        ProcessBegan(0, "broker-a"),
        ProcessEnded(40, "broker-a", how, 0),
        ProcessBegan(50, "broker-a"),
        *events,
        MessageFound(90, "web/2", PLACE, offset),
    ]
    checker = FiltersKept(RED)
    for event in sorted(everything, key=lambda event: event.at_ms):
        checker.see(event)
    checker.finish()
    return bool(checker.violations)


def red(at_ms: int, name: str = "web/2", due_ms: int = 0) -> SendBegan:
    return SendBegan(at_ms, name, "orders", due_ms, False, "red", ())


def answered(at_ms: int, name: str, offset: int) -> SendAcknowledged:
    return SendAcknowledged(at_ms, name, PLACE, offset, 100 * offset)


@pytest.mark.parametrize(
    "shows_end",
    [
        OffsetSeen(30, "billing", PLACE, 2, 6, 1),
        OffsetSeen(30, "billing", PLACE, 6, 2, 1),
        CallBegan(30, 1, "shipping", "shipping-1", PLACE, (Seen("web/1", 5, 0, False),)),
        answered(30, "web/1", 5),
        answered(55, "web/1", 5),  # The old master didn't know yet that another one served.
    ],
    ids=["an end", "an offset", "a call of any group", "a response", "a late response"],
)
@pytest.mark.parametrize(
    ("offset", "how", "is_said"), [(5, "failed over", False), (6, "failed over", True), (5, "killed", True)]
)
def test_members_that_filter_may_have_passed_all_of_a_queue_before_it_became_shorter(
    shows_end: RunEvent, offset: int, how: str, is_said: bool
) -> None:
    """No event tells how far: what doesn't match is passed without a call, long before an offset is committed."""
    events = (red(10, "web/1"), shows_end, red(60), answered(61, "web/2", offset))
    assert is_reported(*events, how=how, offset=offset) is is_said


@pytest.mark.parametrize(("offset", "is_there", "is_said"), [(5, False, False), (8, False, True), (5, True, True)])
def test_who_consumed_what_only_the_replaced_master_had_may_have_passed_what_the_new_one_has(
    offset: int, is_there: bool, is_said: bool
) -> None:
    """A frozen master continues when it thaws, until it knows of its successor."""
    call = CallBegan(70, 1, "billing", "billing-1", PLACE, (Seen("web/1", 7, 0, False),))
    events = [red(10, "web/1"), red(60), answered(61, "web/2", offset), call, CallEnded(71, 1, True)]
    if is_there:
        events.append(MessageFound(89, "web/1", PLACE, 7))
    assert is_reported(*events, offset=offset) is is_said


@pytest.mark.parametrize(("thaws_ms", "is_said"), [(62, False), (60, True)])
def test_members_may_pass_what_is_stored_while_the_replaced_master_still_takes_itself_for_one(
    thaws_ms: int, is_said: bool
) -> None:
    """It stores messages until it knows of its successor, and no event shows how far its queues grow."""
    masters = [MasterSeen(at_ms, "broker-a", f"a-{epoch}", epoch) for at_ms, epoch in ((51, 2), (52, 1), (thaws_ms, 1))]
    assert is_reported(*masters, red(60), answered(61, "web/2", 5)) is is_said


def test_what_was_stored_before_and_has_survived_is_not_passed_over() -> None:
    later = answered(30, "web/1", 6)
    assert is_reported(red(10), red(10, "web/1"), answered(20, "web/2", 5), later)
    assert not is_reported(red(10), red(10, "web/1"), answered(60, "web/2", 5), later)  # It may be a second try.


def test_the_offset_in_the_response_for_a_delayed_message_is_not_one_of_its_queue() -> None:
    assert is_reported(red(10, "web/1", due_ms=15), answered(30, "web/1", 8), red(60), answered(61, "web/2", 5))


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
