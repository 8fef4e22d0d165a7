"""The bench's history: a step back is seen, another machine or a busy one isn't taken for one."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import history
from benchmarks.goals import GOALS, Verdict
from benchmarks.report import show_steps_back


def line(foreign: float = 0.0, crc: float = 300.0, **figures: float) -> dict[str, Any]:
    machine = {"cpu": "x", "cores": 2, "python": "3.11.7", "crc32_1k_ns": crc, "foreign_cores": foreign}
    return history.line_of(figures, machine, 3)


def backs(now: dict[str, Any], *before: dict[str, Any]) -> list[str]:
    return [step.goal.key for step in history.steps_back(now, before)]


def test_a_figure_that_got_worse_is_a_step_back_in_either_direction() -> None:
    before = line(ready_ms=100, send_c1_per_s=200_000, idle_pss_mib=40, delayed_kills_wrong=0)
    assert backs(before, before) == []
    now = line(ready_ms=300, send_c1_per_s=150_000, idle_pss_mib=44, delayed_kills_wrong=0)
    assert backs(now, before) == ["ready_ms", "send_c1_per_s"]
    assert backs(before, now) == []
    assert backs(line(delayed_kills_wrong=1), before) == ["delayed_kills_wrong"]


def test_times_and_rates_are_compared_on_machines_of_one_speed() -> None:
    before = line(crc=266, ready_ms=100, send_c1_per_s=200_000, idle_pss_mib=40, many_topics_x=0.8)
    assert backs(line(crc=532, ready_ms=200, send_c1_per_s=100_000, idle_pss_mib=40, many_topics_x=0.8), before) == []
    half = line(crc=532, ready_ms=200, send_c1_per_s=100_000, idle_pss_mib=80, many_topics_x=0.4)
    assert sorted(backs(half, before)) == ["idle_pss_mib", "many_topics_x"]


def test_busy_runs_and_single_outliers_are_no_measure() -> None:
    usual, busy = line(ready_ms=300), line(foreign=1.9, ready_ms=100)
    assert backs(line(ready_ms=300), busy, usual) == []
    assert backs(line(ready_ms=300), usual, line(ready_ms=10), usual) == []
    assert backs(line(ready_ms=300), busy) == []


def test_what_was_as_bad_in_a_recent_run_is_no_step_back_but_an_old_run_excuses_nothing() -> None:
    noisy = [line(transactions_x_sends=figure) for figure in (0.39, 0.40, 0.27, 0.38, 0.36)]
    assert backs(line(transactions_x_sends=0.28), *noisy) == []
    assert backs(line(transactions_x_sends=0.26), *noisy) == ["transactions_x_sends"]
    assert backs(line(transactions_x_sends=0.28), *noisy, *[line(transactions_x_sends=0.38)] * 3) == [
        "transactions_x_sends"
    ]


def test_each_line_has_the_same_columns_and_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = [line(ready_ms=300), line(send_c1_per_s=1)]
    for each in lines:
        history.append(each, path)
    assert history.read(path) == lines
    assert list(lines[0]["figures"]) == list(lines[1]["figures"]) == list(history.columns())
    assert len(path.read_text().splitlines()) == 2


def test_a_line_is_judged_as_its_run_was_by_all_figures_that_a_goal_needs() -> None:
    goal = next(goal for goal in GOALS if goal.key == "send_rtt_p50_us")
    for echo, verdict in ((80, Verdict.MET), (60, Verdict.MISSED)):
        assert goal.verdict(line(send_rtt_p50_us=100, echo_rtt_p50_us=echo)["figures"]) is verdict
    assert goal.verdict({"send_rtt_p50_us": 100}) is Verdict.NOT_MEASURED


def test_the_recorded_history_can_be_compared_with() -> None:
    for each in history.read():
        assert each["crc32_1k_ns"] > 0
        assert history.steps_back(each, [each]) == []


@pytest.mark.parametrize(("foreign", "words"), [(0.0, "step back, 3.0 times worse"), (1.5, "steps back may be theirs")])
def test_steps_back_are_printed(foreign: float, words: str) -> None:
    printed = StringIO()
    show_steps_back(Console(file=printed, width=200), line(foreign, ready_ms=300), [line(ready_ms=100)])
    assert words in printed.getvalue()
    assert "`staticfire up` to ready: 300 ms, before 100" in printed.getvalue()
