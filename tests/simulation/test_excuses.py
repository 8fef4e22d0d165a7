"""What excuses a copy too many, a lock that somebody else has, an offset that wasn't handed over, and what doesn't."""

from collections.abc import Sequence

import pytest

from staticfire.simulation.checkers.copies import CopiedOnce
from staticfire.simulation.checkers.dead_letters import DeadAfterMax
from staticfire.simulation.checkers.delivery import DuplicatesExplained
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    LocksSeen,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
)
from staticfire.simulation.checkers.handing_over import HandsOver
from staticfire.simulation.checkers.losses import FAILED_OVER
from staticfire.simulation.checkers.offsets import OffsetsSaved
from staticfire.simulation.checkers.order import LocksHeld, OneOwner
from staticfire.simulation.checkers.reaching import ReachesAll
from staticfire.simulation.workload import Brokers, Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

PRODUCERS = [Producers("orders", name="web")]
PULLED = Workload([Topic("orders")], PRODUCERS, [Group("billing", "orders", members=2)])
ORDERED = Workload([Topic("orders")], PRODUCERS, [Group("billing", "orders", members=2, ordered=True)])
POPPED = Workload([Topic("orders")], PRODUCERS, [Group("billing", "orders", popped=True, retries_max=2)])
PLACE = ("broker-a", "orders", 0)
RETRIES, POP_RETRIES, DEAD = "%RETRY%billing", "%RETRY%billing_orders", "%DLQ%billing"
BEGINNING: list[RunEvent] = [ProcessBegan(0, who) for who in ("broker-a", "billing-1", "billing-2", "web-1")]


def after(*events: RunEvent) -> list[RunEvent]:
    return sorted([*BEGINNING, *events], key=lambda event: event.at_ms)


def call(at_ms: int, number: int = 1, member: str = "billing-1", offset: int = 0, times: int = 0) -> CallBegan:
    seen = Seen(f"web-1/{offset}", offset, times, False)
    return CallBegan(at_ms, number, "billing", member, PLACE, (seen,), is_ordered=True)


def done(at_ms: int, number: int = 1, is_success: bool = True) -> CallEnded:
    return CallEnded(at_ms, number, is_success)


def found(topic: str, count: int, times: int = 1, name: str = "web-1/0") -> list[RunEvent]:
    return [MessageFound(900_000, name, ("broker-a", topic, 0), offset, times) for offset in range(count)]


@pytest.mark.parametrize(
    ("copies", "between", "is_said"),
    [
        (found(RETRIES, 1), (), False),
        (found(RETRIES, 2), (), True),
        ([*found(RETRIES, 1), *found(DEAD, 1, 2)], (), True),
        (found(RETRIES, 2), (FaultBegan(61_000, "freeze broker", "broker-a"),), False),
        (found(RETRIES, 2), (FaultBegan(61_000, "freeze producer", "web-1"),), True),
        (found(RETRIES, 1, name="web-1/9"), (), True),
    ],
    ids=["once", "twice", "and dead at once", "its broker didn't answer", "another's trouble", "of another message"],
)
def test_a_failure_stores_one_copy(copies: list[RunEvent], between: Sequence[RunEvent], is_said: bool) -> None:
    events = after(call(60_000), done(60_100, is_success=False), *between, *found("orders", 1, 0), *copies)
    assert bool(said(CopiedOnce(PULLED), events)) is is_said


@pytest.mark.parametrize(("copies", "is_said"), [(1, False), (2, True)])
def test_what_is_at_the_position_of_a_lost_message_is_given_back(copies: int, is_said: bool) -> None:
    """The message that failed is gone, and another one has its offset."""
    left = [*found("orders", 1, 0, "web-1/9"), *found(RETRIES, copies, name="web-1/9")]
    assert bool(said(CopiedOnce(PULLED), after(call(60_000), done(60_100, is_success=False), *left))) is is_said


@pytest.mark.parametrize(("copies", "is_said"), [(1, False), (2, True)])
def test_a_popped_message_has_one_copy_of_each_time(copies: int, is_said: bool) -> None:
    events = after(call(60_000), *found("orders", 1, 0), *found(POP_RETRIES, copies))
    assert bool(said(CopiedOnce(POPPED), events)) is is_said


@pytest.mark.parametrize(("times", "counted", "is_said"), [(2, 3, False), (1, 2, True), (1, 3, False)])
def test_a_popped_message_is_dead_after_its_retries(times: int, counted: int, is_said: bool) -> None:
    events = after(call(60_000, times=times), done(60_100, is_success=False), *found(DEAD, 1, counted))
    assert bool(said(DeadAfterMax(POPPED), events)) is is_said


@pytest.mark.parametrize(
    ("holder", "between", "is_said"),
    [
        ("billing-1", (), False),
        ("billing-2", (), True),
        (None, (), True),
        ("billing-2", (FaultBegan(59_000, "freeze member", "billing-1"),), False),
        ("billing-2", (ProcessEnded(58_000, "broker-a", "killed"), ProcessBegan(59_000, "broker-a")), False),
        ("billing-2", (done(60_900),), False),
    ],
    ids=["its own", "another's", "nobody's", "it is frozen", "the broker has forgotten it", "its listener has ended"],
)
def test_who_works_in_order_has_the_lock(holder: str | None, between: Sequence[RunEvent], is_said: bool) -> None:
    seen = LocksSeen(61_000, "broker-a", "billing", {} if holder is None else {("orders", 0): holder})
    assert bool(said(LocksHeld(ORDERED), after(*between, call(60_000), seen))) is is_said


@pytest.mark.parametrize(("began_ms", "is_said"), [(60_000, False), (95_000, True)], ids=["before", "when it is well"])
def test_a_member_that_was_frozen_is_excused_for_what_it_had_begun(began_ms: int, is_said: bool) -> None:
    frozen = [FaultBegan(60_000, "freeze member", "billing-1"), FaultEnded(90_000, "freeze member", "billing-1")]
    events = after(*frozen, call(began_ms), call(96_000, 2, "billing-2"))
    assert bool(said(OneOwner(ORDERED), events)) is is_said


@pytest.mark.parametrize(("began_ms", "is_said"), [(89_000, False), (91_000, True)], ids=["still", "no more"])
def test_a_member_still_uses_a_lock_that_a_new_process_of_its_broker_does_not_know(
    began_ms: int, is_said: bool
) -> None:
    restarted = [ProcessEnded(59_000, "broker-a", "failed over"), ProcessBegan(60_000, "broker-a")]
    events = after(*restarted, call(began_ms - 1), call(began_ms, 2, "billing-2"))
    assert bool(said(OneOwner(ORDERED), events)) is is_said


@pytest.mark.parametrize(
    ("offset", "between", "is_said"),
    [
        (4, (), True),
        (6, (), False),
        (4, (call(69_000, 3, offset=3),), False),
        (4, (call(69_000, 3, offset=3), done(69_900, 3, is_success=False)), False),
        (4, (ProcessBegan(50_000, "billing-2"),), False),
        (4, (FaultBegan(70_500, "freeze broker", "broker-a"),), False),
        (4, (FaultBegan(70_500, "freeze producer", "web-1"),), True),
    ],
    ids=[
        "what is done", "what isn't", "one before it isn't done", "one before it has just failed", "it had just got it",
        "the broker is frozen", "another's trouble",
    ],
)  # fmt: skip
def test_who_leaves_hands_over(offset: int, between: Sequence[RunEvent], is_said: bool) -> None:
    leaves = [ProcessEnded(70_000, "billing-1", "stopping"), ProcessEnded(70_100, "billing-1", "stopped")]
    events = after(call(60_000, 1, offset=5), done(60_100), *between, *leaves, call(71_000, 2, "billing-2", offset))
    assert bool(said(HandsOver(PULLED), events)) is is_said


@pytest.mark.parametrize(
    ("workload", "between", "is_said"),
    [
        (ORDERED, ProcessEnded(500_200, "billing-1", "stopped"), True),
        (PULLED, ProcessEnded(500_200, "billing-1", "stopped"), False),
        (ORDERED, ProcessEnded(500_200, "billing-1", "killed"), False),
        (PULLED, ProcessEnded(500_200, "web-1", "killed"), True),
    ],
    ids=["with locks nothing is lost by a leave", "without there may be", "a kill", "who has no offsets"],
)
def test_what_explains_a_duplicate(workload: Workload, between: RunEvent, is_said: bool) -> None:
    events = [call(500_000), done(500_100), between, call(501_000, 2)]
    assert bool(said(DuplicatesExplained(workload), after(*events))) is is_said


@pytest.mark.parametrize(
    ("how", "between", "is_said"),
    [("stopped", (), True), ("killed", (), False), ("stopped", (FaultBegan(60_500, "full disk", "broker-a"),), False)],
    ids=["in order", "killed", "with a full disk"],
)
def test_a_broker_that_stops_in_order_knows_its_offsets(how: str, between: Sequence[RunEvent], is_said: bool) -> None:
    stands, forgot = OffsetSeen(60_000, "billing", PLACE, 5, 9, 1), OffsetSeen(62_000, "billing", PLACE, 2, 9, 2, True)
    events = after(stands, *between, ProcessEnded(61_000, "broker-a", how), forgot)
    assert bool(said(OffsetsSaved(PULLED), events)) is is_said


@pytest.mark.parametrize(
    ("seen_ms", "is_said"),
    [(60_000, False), (60_250, False), (60_400, True)],
    ids=["seen before a reset", "seen during a reset", "seen after it"],
)
def test_offsets_that_an_administrator_resets_are_those_after_the_reset(seen_ms: int, is_said: bool) -> None:
    stands, forgot = OffsetSeen(seen_ms, "billing", PLACE, 5, 9, 1), OffsetSeen(62_000, "billing", PLACE, 2, 9, 2, True)
    reset = [FaultBegan(60_200, "reset offsets", "billing"), FaultEnded(60_300, "reset offsets", "billing")]
    events = sorted([stands, *reset], key=lambda event: event.at_ms)
    stopped = ProcessEnded(61_000, "broker-a", "stopped")
    assert bool(said(OffsetsSaved(PULLED), after(*events, stopped, forgot))) is is_said


@pytest.mark.parametrize(
    ("between", "how", "is_said"),
    [
        (FaultBegan(59_000, "hold copy", "broker-a"), FAILED_OVER, False),
        (FaultBegan(59_000, "freeze broker", "broker-a-1"), FAILED_OVER, False),
        (FaultBegan(59_000, "hold copy", "broker-a"), "killed", True),
        (FaultBegan(61_000, "hold copy", "broker-a"), FAILED_OVER, True),
        (FaultBegan(59_000, "freeze member", "billing-1"), FAILED_OVER, True),
    ],
    ids=["a held copy", "a frozen slave", "its master is back", "a fault that began later", "a fault of a member"],
)
def test_a_retry_that_slaves_may_lack_can_be_lost_with_its_master(between: RunEvent, how: str, is_said: bool) -> None:
    settings = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
    groups = [Group("billing", "orders", members=2, retries_max=1)]
    workload = Workload([Topic("orders")], PRODUCERS, groups, Brokers(1, settings, replicas=1))
    failed = [call(60_000, times=1), done(60_010, is_success=False), *found("orders", 1, 0)]
    events = after(between, *failed, ProcessEnded(90_000, "broker-a", how), ProcessBegan(90_000, "broker-a"))
    assert bool(said(ReachesAll(workload), events)) is is_said
    assert bool(said(DeadAfterMax(workload), events)) is is_said
