"""What an administrator finds at the end of a run by id and by key."""

import pytest

from staticfire.simulation.checkers.events import LookedUp, MessageFound, QueuePlace, RunEvent
from staticfire.simulation.checkers.look_ups import FoundByIdAndKey
from staticfire.simulation.runs.looking_up import MESSAGES_MAX
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

OWN: QueuePlace = ("broker-a", "orders", 1)
RETRY: QueuePlace = ("broker-b", "%RETRY%billing", 0)
SET_ASIDE: QueuePlace = ("broker-a", "TRANS_CHECK_MAX_TIME_TOPIC", 0)
ORDERS = Workload([Topic("orders")], [Producers("orders", 5, name="web", has_keys=True)], [Group("billing", "orders")])


def looked_up(*found: tuple[str, QueuePlace, int], topic: str = "", problem: str = "") -> LookedUp:
    return LookedUp(99, "web-1/1", "0A00", topic, found, problem)


@pytest.mark.parametrize(
    ("result", "is_said"),
    [
        (looked_up(("web-1/1", OWN, 3), ("web-1/1", RETRY, 0)), False),
        (looked_up(("web-1/1", OWN, 3)), True),
        (looked_up(("web-1/1", OWN, 3), topic="orders"), False),
        (looked_up(topic="orders"), True),
        (looked_up(("web-1/1", OWN, 4), topic="orders"), True),
        (looked_up(("web-1/1", OWN, 3), ("web-1/2", OWN, 4), topic="orders"), True),
        (looked_up(*(("web-1/1", RETRY, at) for at in range(63))), True),
        (looked_up(*(("web-1/1", RETRY, at) for at in range(64))), False),
        (looked_up(("web-1/1", OWN, 3), topic="orders", problem="broker-b doesn't respond"), True),
    ],
    ids=[
        "both",
        "no retry",
        "in its topic",
        "none",
        "another offset",
        "another message",
        "too few",
        "the newest",
        "a gap",
    ],
)
def test_all_copies_of_a_message_are_found(result: LookedUp, is_said: bool) -> None:
    stored: list[RunEvent] = [
        MessageFound(90, "web-1/1", place, offset) for place, offset in ((OWN, 3), (RETRY, 0), (SET_ASIDE, 0))
    ]
    assert bool(said(FoundByIdAndKey(ORDERS), [*stored, MessageFound(90, "web-1/2", OWN, 4), result])) is is_said


def test_a_run_looks_for_some_of_its_messages_by_id_and_by_key() -> None:
    outcome = play(ORDERS, Play(1, 0.01, keeps_events=True))
    assert outcome.passed, outcome
    results = [event for event in outcome.events if isinstance(event, LookedUp)]
    assert [result.topic for result in results] == ["", "orders"] * (len(results) // 2)
    assert 5 < len(results) <= 2 * MESSAGES_MAX
    assert all({name for name, _, _ in result.found} == {result.name} for result in results)
