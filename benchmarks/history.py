"""The history of the bench: recorded/history.jsonl, one line per complete run, so that a step back is seen in the next.

A line has the commit, the day, the machine, the time of its CRC-32, the cores that other programs used meanwhile, and
one column per goal, null where nothing was measured. `make bench ARGS=--record` appends one; each run is compared with
the last ones. Times and rates are scaled by the CRC-32, because virtual cores differ by a factor of two between days;
counts, memory and ratios aren't.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.figures import Values
from benchmarks.goals import GOALS, Goal

HISTORY = Path(__file__).parent / "recorded" / "history.jsonl"
# A figure is compared with its median in the last lines that have it.
LAST = 5
# A figure is a step back if it is worse by this factor, and worse than in each of these lines. Runs of the same commit
# mostly differ by a tenth, but some figures by a third.
WORSE = 1.25
# A run is only compared with others if other programs used at most this many cores.
FOREIGN_CORES_MAX = 0.3
_TIMES = ("us", "ms", "s", "us CPU")
_RATES = ("/s", "/min", "h/min")


class StepBack(NamedTuple):
    """A figure that got worse."""

    goal: Goal
    before: float
    """What it was, on a machine as fast as this one."""
    now: float
    times: float
    """How many times worse it is."""


def line_of(values: Values, machine: dict[str, object], rounds: int) -> dict[str, Any]:
    """Return the line of a run."""
    return {
        "commit": _commit(),
        "day": datetime.now(UTC).date().isoformat(),
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "python": machine["python"],
        "crc32_1k_ns": machine["crc32_1k_ns"],
        "foreign_cores": machine["foreign_cores"],
        "rounds": rounds,
        "figures": {key: _rounded(values.get(key)) for key in columns()},
    }


def columns() -> Iterator[str]:
    """Yield the keys of a line's figures: each goal, and the figures by which it is judged."""
    for goal in GOALS:
        yield from filter(None, (goal.key, goal.cpu_key, goal.times_key))


def append(line: dict[str, Any], path: Path = HISTORY) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read(path: Path = HISTORY) -> list[dict[str, Any]]:
    """Return all lines, the oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_quiet(line: dict[str, Any]) -> bool:
    """Return whether other programs left the machine to a run."""
    return bool(line["foreign_cores"] <= FOREIGN_CORES_MAX)


def steps_back(now: dict[str, Any], history: Sequence[dict[str, Any]]) -> list[StepBack]:
    """Return what is clearly worse than in the last quiet runs, the worst first."""
    before = [line for line in history if is_quiet(line)]
    found = []
    for goal in GOALS:
        value = now["figures"].get(goal.key)
        known = [line for line in before if line["figures"].get(goal.key) is not None][-LAST:]
        values = [_scaled(goal, line, now["crc32_1k_ns"]) for line in known]
        if value is None or not values:
            continue
        was = median(values)
        times = _times_worse(goal, was, value)
        if times >= WORSE and all(_times_worse(goal, one, value) > 1 for one in values):
            found.append(StepBack(goal, was, value, times))
    return sorted(found, key=lambda step: -step.times)


def _scaled(goal: Goal, line: dict[str, Any], crc32_ns: float) -> float:
    """Return a line's figure as it would be on a machine whose CRC-32 takes this long."""
    value: float = line["figures"][goal.key]
    slower: float = crc32_ns / line["crc32_1k_ns"]
    if goal.unit in _TIMES:
        return value * slower
    return value / slower if goal.unit in _RATES else value


def _times_worse(goal: Goal, before: float, now: float) -> float:
    good, bad = (before, now) if goal.at_least is None else (now, before)
    if good <= 0:
        return float("inf") if bad > 0 else 1.0
    return bad / good


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _commit() -> str:
    """Return the commit, with a + if files differ from it; lines that aren't committed yet don't count."""
    root = HISTORY.parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", f":(exclude){HISTORY.name}")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
