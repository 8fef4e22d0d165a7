"""The page of a run: one zero of time, and what a failed run teaches on top."""

import json
import re
from typing import Any

import pytest

from staticfire.simulation.checkers.checker import Violation
from staticfire.simulation.checkers.events import FaultBegan, FaultEnded, OffsetsReset, RunEvent
from staticfire.simulation.checkers.reaching import ReachesAll
from staticfire.simulation.runs.lessons import BEFORE_MS, lessons
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import WARM_UP_MS, Play, play
from staticfire.simulation.runs.trace_page import trace_page
from staticfire.simulation.workload.strikes import Strike
from tests.simulation.small import HOURS, WORKLOAD

pytestmark = pytest.mark.row("S3")


def facts_of(page: str) -> Any:
    data = re.search(r"const run = (\{.*\});", page)
    assert data is not None
    return json.loads(data[1])


def test_strikes_and_events_count_from_the_same_zero() -> None:
    struck = Strike(10_000, "kill member", "billing-1", 2_000)
    outcome = play(WORKLOAD, Play(3, HOURS, [struck], keeps_events=True))
    facts = facts_of(trace_page(outcome, "shop.py", "staticfire simulate --seed 3"))
    (began_ms,) = [at_ms for at_ms, kind, _ in facts["events"] if kind == "FaultBegan"]
    (line,) = facts["strikes"]
    listed_ms = float(line.partition(" s ")[0]) * 1_000
    assert listed_ms >= WARM_UP_MS + 10_000
    assert began_ms == pytest.approx(listed_ms, abs=1_000)
    assert outcome.strike_lines == facts["strikes"]
    assert facts["lessons"] == []


def outcome_with(events: list[RunEvent], *violations: Violation) -> RunOutcome:
    return RunOutcome(1, list(violations), [], {}, 100_000, 0.0, "", events)


def test_a_broken_promise_is_shown_with_its_faults_and_how_often() -> None:
    at_ms = BEFORE_MS + 20_000
    events: list[RunEvent] = [
        FaultBegan(1_000, "slow network", ""),
        FaultEnded(2_000, "slow network", ""),  # too long before
        FaultBegan(at_ms - 9_000, "kill broker", "broker-a"),
        FaultEnded(at_ms - 4_000, "kill broker", "broker-a"),
        FaultBegan(at_ms - 1_000, "cut", "web-0"),
        FaultBegan(at_ms + 1, "full disk", "broker-a"),  # after it
    ]
    found = lessons(
        outcome_with(
            events, Violation("ReachesAll", at_ms, "m1 never came"), Violation("ReachesAll", at_ms + 5, "m2 neither"),
            Violation("MyOwn", at_ms + 6, "no"),
        )
    )  # fmt: skip
    assert [(one.promise, one.words, one.count) for one in found] == [
        (ReachesAll.promise, "m1 never came", 2),
        ("MyOwn", "no", 1),
    ]
    assert found[0].faults == [
        "cut: web-0, from 79.000 s, still in effect",
        "kill broker: broker-a, from 71.000 s until 76.000 s",
    ]


def test_a_page_shows_the_lessons_and_the_command_that_repeats_the_run() -> None:
    page = trace_page(outcome_with([], Violation("ReachesAll", 5, "<b>m1</b>")), "x.py", "staticfire simulate --seed 1")
    assert "<code>staticfire simulate --seed 1</code>" in page
    assert facts_of(page)["lessons"][0]["words"] == "<b>m1</b>"
    assert "<b>m1</b>" not in page


def test_a_page_shows_events_that_name_queues() -> None:
    events: list[RunEvent] = [OffsetsReset(7, "billing", "orders", 6, 5, {("broker-a", "orders", 0): 3})]
    ((_, _, fields),) = facts_of(trace_page(outcome_with(events), "x.py", "staticfire simulate --seed 1"))["events"]
    assert fields["offsets"] == {"broker-a orders 0": 3}
