"""Runs from seeds: they repeat, they find what is broken, they are told as pages."""

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from staticfire.client import ReceivedMessage
from staticfire.client.consume.queues import concurrent_policy
from staticfire.runtime.log import logger
from staticfire.simulation.checkers import Checker
from staticfire.simulation.checkers.events import CallBegan, RunEvent, SendBegan
from staticfire.simulation.runs.play import Play, planned, play
from staticfire.simulation.runs.shrinking import SECONDS_MAX, Shrinker, as_scenario, minimal
from staticfire.simulation.runs.trace_page import trace_page
from staticfire.simulation.workload import Brokers, Group, Producers, Topic, Workload
from staticfire.simulation.workload.strikes import STRIKES, Strike
from tests.house.source import ROOT
from tests.simulation.small import HOURS, WORKLOAD, outcome_of, reported

pytestmark = pytest.mark.row("S3")


def test_what_another_thread_logs_is_not_part_of_a_run() -> None:
    over = Event()

    def complain() -> None:
        while not over.wait(0.001):
            logger("client").warning("from_another_thread")

    other = Thread(target=complain)
    other.start()
    try:
        assert "from_another_thread" not in reported(3)
    finally:
        over.set()
        other.join()


def test_a_seed_is_the_same_run_under_any_hash_seed() -> None:
    here = reported(3)
    assert "all promises kept" in here
    assert any(f"'{kind}': " in here for kind in STRIKES)  # It counts what broke.
    program = "from tests.simulation.small import reported; print(reported(3))"
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert there.stdout.strip() == here, there.stderr


def test_a_group_pops_where_its_workload_says_so() -> None:
    group = Group("billing", "orders", members=2, popped=True, fails=0.2, settings={"pop_invisible_time_ms": 5_000})
    workload = Workload([Topic("orders")], [Producers("orders", per_second=2)], [group])
    outcome = play(workload, Play(1, HOURS, keeps_events=True))
    assert outcome.passed, outcome
    calls = [event for event in outcome.events if isinstance(event, CallBegan)]
    assert calls
    assert all(seen.popped_ms >= 0 and seen.until_ms > seen.popped_ms for call in calls for seen in call.messages)
    assert {place for _, place, _ in {call.place for call in calls}} == {"orders", "%RETRY%billing_orders"}
    assert outcome.states["a popped message was redelivered"]


def test_seeds_differ_in_what_breaks() -> None:
    plans = [planned(WORKLOAD, Play(seed, 0.1)) for seed in range(20)]
    assert len({str(plan) for plan in plans}) == 20
    assert len({strike.kind for plan in plans for strike in plan}) > 15


@pytest.fixture
def failures_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the consumer."""
    monkeypatch.setattr(concurrent_policy, "count_done", lambda _status, _ack_index, count, *_: count)


@pytest.mark.usefixtures("failures_count_as_done")
def test_a_run_that_failed_is_reported_with_its_cause_and_as_a_page() -> None:
    outcome = play(WORKLOAD, Play(3, HOURS, keeps_events=True))
    assert {violation.checker for violation in outcome.violations} == {"ReachesAll"}
    page = trace_page(outcome, "shop.py")
    assert "{{" not in page
    data = re.search(r"const run = (\{.*\});", page)
    assert data is not None
    facts = json.loads(data[1])
    assert facts["violations"] == [[each.at_ms, str(each)] for each in outcome.violations]
    assert {kind for _, kind, _ in facts["events"]} >= {"SendBegan", "CallBegan", "FaultBegan", "ProcessEnded"}


@pytest.mark.usefixtures("failures_count_as_done")
def test_a_run_that_failed_is_made_smaller_and_written_as_a_test() -> None:
    outcome = outcome_of(3)
    shrinker = Shrinker(lambda _: WORKLOAD, outcome, HOURS)
    smallest = shrinker.shrink()
    assert smallest.strikes == []  # It needs no fault at all.
    text = as_scenario(smallest, shrinker.hours, "small.py")
    program: dict[str, Any] = {"WORKLOAD": WORKLOAD}
    exec(text.replace('load_workload("small.py")', "WORKLOAD"), program)
    with pytest.raises(AssertionError, match="ReachesAll"):
        program["test_seed_3"]()


@pytest.mark.usefixtures("failures_count_as_done")
def test_a_long_run_that_failed_is_made_smaller() -> None:
    """A repetition of this one takes longer than all tries for a short one may."""
    outcome = outcome_of(3)
    assert outcome.strikes
    seconds = itertools.count(step=2 * SECONDS_MAX)
    shrinker = Shrinker(lambda _: WORKLOAD, outcome, HOURS, clock_s=lambda: next(seconds))
    assert shrinker.shrink().strikes == []
    assert shrinker.tries == 3  # Without faults, once more, and in less time.


def test_the_fewest_faults_are_found() -> None:
    strikes = [Strike(at_ms, "kill broker") for at_ms in range(20)]
    needed = {strikes[3], strikes[17]}
    tries: list[int] = []

    def fails(some: list[Strike]) -> bool:
        tries.append(len(some))
        return needed <= set(some)

    assert minimal(strikes, fails) == [strikes[3], strikes[17]]
    assert len(tries) < 40


ABSENCE = Workload(
    topics=[Topic("orders", queues=2)],
    producers=[Producers("orders", per_second=2)],
    groups=[Group("shipping", "orders", members=2, ordered=True, takes_ms=(900, 900))],
)


@pytest.mark.parametrize(("kind", "changes_hands"), [("freeze member", 1), ("isolate member", 0)])
def test_a_member_is_back_after_its_queue_was_given_to_another(kind: str, changes_hands: int) -> None:
    """Only one that is frozen has its listener still running then."""
    away = Strike(4_000, kind, "shipping-1", lasts_ms=150_000)
    outcome = play(ABSENCE, Play(1, 0.05, strikes=[away]))
    assert outcome.passed, outcome
    assert outcome.states["a client was away for longer than its membership"] == 1
    assert outcome.states.get("an ordered queue changed its owner while its listener ran", 0) == changes_hands


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_broker_gives_up_a_disk_that_forgets(flush: str) -> None:
    workload = replace(ABSENCE, brokers=Brokers(1, {"flush_disk_type": flush}))
    failing = Strike(5_000, "failing syncs", "broker-a", lasts_ms=10_000, detail=4)
    outcome = play(workload, Play(4, HOURS, strikes=[failing]))
    assert outcome.passed, outcome
    assert outcome.states["a broker gave up its disk"] >= 1


class Listens(Checker):
    """What a person could want to know: whether everybody gets something."""

    hears = (CallBegan,)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.heard = 0

    def see(self, event: RunEvent) -> None:
        self.heard += 1

    def finish(self) -> None:
        self.broken(0, f"{self.heard > 3} {sorted(self.groups)}")


def test_a_persons_own_listener_and_checker_take_part() -> None:
    heard: list[bytes] = []

    async def listen(messages: tuple[ReceivedMessage, ...], _: object) -> None:
        await asyncio.sleep(0.2)  # house: virtual time
        heard.extend(message.body for message in messages)
        if len(heard) == 4:
            raise ValueError("out of luck")

    workload = Workload(
        topics=[Topic("orders", queues=1)],
        producers=[Producers("orders", per_second=1, body=lambda number: b"order %d" % number)],
        groups=[Group("billing", "orders", listener=listen)],
        checkers=[Listens],
    )
    outcome = play(workload, Play(1, HOURS))
    assert [str(each) for each in outcome.violations] == ["Listens at 0.000 s: True ['billing']"]
    assert b"order 1" in heard


def test_a_run_may_end_as_soon_as_a_promise_is_broken() -> None:
    class NeverSends(Checker):
        hears = (SendBegan,)

        def see(self, event: RunEvent) -> None:
            self.broken(event.at_ms, "something was sent")

    workload = Workload([Topic("orders")], [Producers("orders", 10)], checkers=(NeverSends,))
    whole, early = (play(workload, Play(1, 0.02, stops_early=is_early)) for is_early in (False, True))
    assert whole.violations[0] == early.violations[0]
    assert early.virtual_ms < whole.virtual_ms / 2
