"""Runs from seeds: they repeat, they find what is broken, they are told as pages."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.faults.runs.play import Play, planned, play
from staticfire.faults.runs.trace_page import trace_page
from tests.house.source import ROOT
from tests.simulation.small import HOURS, WORKLOAD, outcome_of, told

pytestmark = pytest.mark.row("S3")


def test_a_seed_is_the_same_run_under_any_hash_seed() -> None:
    here = told(3)
    assert "all promises kept" in here
    program = "from tests.simulation.small import told; print(told(3))"
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert there.stdout.strip() == here, there.stderr


def test_seeds_differ_in_what_breaks() -> None:
    plans = [planned(WORKLOAD, Play(seed, 0.1)) for seed in range(20)]
    assert len({str(plan) for plan in plans}) == 20
    assert len({strike.kind for plan in plans for strike in plan}) > 15


def test_a_run_with_a_broken_lock_is_told_with_its_cause_and_as_a_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(QueueLocks, "lock", lambda _, group, client_id, queues, uptime_ms: list(queues))
    outcome = play(WORKLOAD, Play(3, HOURS, keeps_events=True))
    assert {violation.checker for violation in outcome.violations} & {"InOrder", "OneOwner"}
    page = trace_page(outcome, "shop.py")
    assert "{{" not in page
    data = re.search(r"const run = (\{.*\});", page)
    assert data is not None
    facts = json.loads(data[1])
    assert facts["violations"] == [[each.at_ms, str(each)] for each in outcome.violations]
    assert {kind for _, kind, _ in facts["events"]} >= {"SendBegan", "CallBegan", "FaultBegan", "ProcessEnded"}


def test_a_run_counts_what_broke() -> None:
    outcome = outcome_of(3)
    assert sum(outcome.states.get(strike.kind, 0) for strike in outcome.strikes) > 0
