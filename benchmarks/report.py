"""The table that `make bench` prints, and the results file for comparisons: results/latest.json."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Values
from benchmarks.goals import GOALS, Goal, Verdict
from benchmarks.history import FOREIGN_CORES_MAX, is_quiet, steps_back

RESULTS = Path(__file__).parent / "results" / "latest.json"

_COLOURS = {
    Verdict.MET: "green",
    Verdict.MET_BY_CPU: "green",
    Verdict.MISSED: "red",
    Verdict.NOT_MEASURED: "dim",
}


def medians(rounds: list[Values]) -> Values:
    """Return the median of each key over the rounds."""
    keys = dict.fromkeys(key for values in rounds for key in values)
    return {key: median([values[key] for values in rounds if key in values]) for key in keys}


def ratios(values: Values) -> Values:
    """Return each figure as a fraction of the bare echo server's in the same rounds."""
    found: Values = {}
    for key in values:
        name = key.removesuffix("_echo_per_s")
        if name != key:
            found[name] = values[f"{name}_per_s"] / values[key]
    if "echo_rtt_p50_us" in values:
        found["send_rtt"] = values["send_rtt_p50_us"] / values["echo_rtt_p50_us"]
    return found


def show(console: Console, values: Values, rounds: list[Values]) -> None:
    """Print the measured goals."""
    beside = ratios(values)
    table = Table(title=f"median of {len(rounds)} rounds (lowest - highest)", title_justify="left")
    for name in ("figure", "value", "spread", "CPU us", "x echo", "goal", "", "RocketMQ 5.3.3", "foreign cores"):
        table.add_column(name, justify="left" if name in ("figure", "goal", "", "RocketMQ 5.3.3") else "right")
    for goal in GOALS:
        verdict = goal.verdict(values)
        if verdict is Verdict.NOT_MEASURED:
            continue
        name = goal.key.removesuffix("_per_s").removesuffix("_p50_us")
        foreign = values.get(f"{name}_foreign", values.get(f"{name.rsplit('_', 2)[0]}_foreign"))
        table.add_row(
            goal.what,
            f"{number(values[goal.key])} {goal.unit}",
            _spread(goal, rounds),
            number(values[f"{name}_cpu_us"]) if f"{name}_cpu_us" in values else "",
            f"{beside[name]:.2f}" if name in beside else "",
            goal.words,
            f"[{_COLOURS[verdict]}]{verdict.value}[/]",
            goal.rocketmq,
            "" if foreign is None else f"{foreign:.2f}",
        )
    console.print(table)


def show_steps_back(console: Console, now: dict[str, Any], history: Sequence[dict[str, Any]]) -> None:
    """Print which figures are worse than in the last recorded runs."""
    if not any(is_quiet(line) for line in history):
        return
    if not is_quiet(now):
        words = f"other programs used {now['foreign_cores']} cores, more than {FOREIGN_CORES_MAX}"
        console.print(f"[yellow]{words}: steps back may be theirs")
    steps = steps_back(now, history)
    for step in steps:
        words = f"{step.goal.what}: {number(step.now)} {step.goal.unit}, before {number(step.before)}"
        console.print(f"[red]step back, {step.times:.1f} times worse: {words}")
    if not steps:
        console.print("no step back beside the last recorded runs")


def number(value: float) -> str:
    """Return a figure with its significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(goal: Goal, rounds: list[Values]) -> str:
    seen = [values[goal.key] for values in rounds if goal.key in values]
    return f"{number(min(seen))} - {number(max(seen))}"


def write(values: Values, machine: dict[str, object], rocketmq: Values, rounds: int) -> Path:
    """Write the results file; return its path."""
    rounded = {key: round(value, 3) for key, value in values.items() if not key.endswith("_foreign")}
    document = {
        "figures": rounded,
        "machine": machine,
        "ratios": {key: round(value, 3) for key, value in ratios(values).items()},
        "rocketmq_ratios": {key: round(value, 3) for key, value in rocketmq.items()},
        "foreign_cores": {
            key.removesuffix("_foreign"): round(value, 3) for key, value in values.items() if key.endswith("_foreign")
        },
        "rounds": rounds,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return RESULTS
