"""The shares of members: queues at rest, and calls at the same time."""

from typing import Any

import pytest

from staticfire.client import AVERAGELY_BY_CIRCLE
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    OwnersSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
)
from staticfire.simulation.checkers.sharing import FairShares, ThreadsLimited
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

PLACE = ("broker-a", "orders", 0)
IN_TURN = {"allocate_strategy": AVERAGELY_BY_CIRCLE}


def of_group(**words: Any) -> Workload:
    return Workload([Topic("orders")], [Producers("orders")], [Group("billing", "orders", **words)])


def owned(numbers: str) -> OwnersSeen:
    """The queues of two brokers, in their order, each with the number of its member; ?: it has none."""
    places = [("broker-a" if queue < 3 else "broker-b", "orders", queue % 3) for queue in range(len(numbers))]
    owners = {
        place: [] if number == "?" else [f"billing-{number}"] for place, number in zip(places, numbers, strict=True)
    }
    return OwnersSeen(9, "billing", owners)


@pytest.mark.parametrize(
    ("numbers", "settings", "is_said"),
    [
        ("1123", {}, False), ("3312", {}, False), ("1112", {}, True), ("1122", {}, True), ("111222", {}, True),
        ("112233", {}, False), ("121323", {}, True), ("123123", IN_TURN, False), ("312312", IN_TURN, False),
        ("112233", IN_TURN, True), ("12", {}, False), ("112???", {}, False),
    ],
)  # fmt: skip
def test_members_have_fair_shares(numbers: str, settings: dict[str, Any], is_said: bool) -> None:
    up: list[RunEvent] = [ProcessBegan(0, f"billing-{number}") for number in (1, 2, 3)]
    assert bool(said(FairShares(of_group(members=3, settings=settings)), [*up, owned(numbers)])) is is_said


def test_only_running_members_have_a_share() -> None:
    up: list[RunEvent] = [ProcessBegan(0, f"billing-{number}") for number in (1, 2, 3)]
    events = [*up, ProcessEnded(5, "billing-3", "killed"), owned("111222")]
    assert said(FairShares(of_group(members=3)), events) == []


def test_a_persons_own_strategy_is_not_judged() -> None:
    workload = of_group(members=2, settings={"allocate_strategy": object()})
    up: list[RunEvent] = [ProcessBegan(0, "billing-1"), ProcessBegan(0, "billing-2")]
    assert said(FairShares(workload), [*up, owned("1112")]) == []


def call(number: int, messages: int = 1, popped_ms: int = -1) -> CallBegan:
    seen = tuple(Seen(f"web-1/{at}", at, 0, False, popped_ms) for at in range(messages))
    return CallBegan(number, number, "billing", "billing-1", PLACE, seen)


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([call(1), call(2)], False),
        ([call(1), call(2), call(3)], True),
        ([call(1), call(2), CallEnded(3, 1, True), call(3)], False),
        ([call(1), call(2), ProcessEnded(3, "billing-1", "killed"), call(4), CallEnded(5, 1, False)], False),
        ([call(1), call(2), ProcessEnded(3, "billing-1", "stopping"), call(4)], True),
        ([call(1, 3), call(2, 3)], False),
        ([call(1, 4)], True),
        ([call(1), call(2), call(3, popped_ms=1), call(4, popped_ms=1), call(5, popped_ms=1)], False),
        ([call(1, 3, 1), call(2, 3, 1), call(3, 1, 1)], True),
    ],
    ids=[
        "two threads", "a third call", "one has ended", "killed meanwhile", "still running", "two batches",
        "more than a batch", "other threads", "more popped ones",
    ],
)  # fmt: skip
def test_a_member_has_no_more_calls_than_threads(events: list[RunEvent], is_said: bool) -> None:
    workload = of_group(batch=3, settings={"consume_threads": 2})
    assert bool(said(ThreadsLimited(workload), events)) is is_said
