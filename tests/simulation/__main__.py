"""`python -m tests.simulation`: every seed that ever failed (failed.json), then fresh ones for as long as is said.

Fresh means: other seeds each day; `--seeds 100` plays the first 100 instead, the same each time. The swarm has
many kinds of workloads, so each of them is one run. What failed and what was seen is kept in .venv/simulation; a seed
that failed belongs into failed.json together with its repair. Seeds from before the swarm had further kinds of
workloads are played with `plain.py`, which is what the swarm was then: each is the run that failed.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from staticfire.simulation.runs.many import cores, play_many
from staticfire.simulation.runs.outcome import RunOutcome
from staticfire.simulation.runs.play import Play
from staticfire.simulation.runs.seeds import seed_text
from tests.house.source import ROOT

FAILED = Path(__file__).with_name("failed.json")
OPEN = Path(__file__).with_name("open.json")
# What seeds have found and nobody has mended yet: told each time, and no failure of `--seeds`.
KEPT = ROOT / ".venv" / "simulation"
HOURS, LONG_HOURS = 0.03, 0.12
LONG_EVERY = 8
# So many seeds are one long run: only there a member is out of its group, and locks are over, before it is back.
DAY_S = 86_400
SEEDS_PER_DAY = 1_000_000
SHOWN_MAX = 12


class Night:
    """What has come out so far."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.runs = 0
        self.virtual_ms = 0
        self.cpu_s = 0.0
        self.states: Counter[str] = Counter()
        self.failed: list[dict[str, Any]] = []
        self.known: set[int] = set()
        """Seeds whose findings are open."""

    def add(self, outcome: RunOutcome, hours: float, path: str = "") -> None:
        """Count a run, and tell of one that has failed."""
        self.runs += 1
        self.virtual_ms += outcome.virtual_ms
        self.cpu_s += outcome.cpu_s
        self.states.update(outcome.states)
        if not outcome.passed and outcome.seed in self.known:
            print(f"{outcome}\n  open: it is known, and not mended yet", flush=True)
        elif not outcome.passed:
            self.failed.append({"seed": outcome.seed, "hours": hours, "words": str(outcome.violations[0])})
            seed = seed_text(outcome.seed, path, hours)
            print(f"{outcome}\n  again: staticfire simulate --seed {seed} --hours {hours:g} {path}".rstrip())
            sys.stdout.flush()

    def keep(self) -> None:
        """Write down what there is, so that a night that is cut off has its figures, too."""
        KEPT.mkdir(parents=True, exist_ok=True)
        facts = {
            "runs": self.runs, "virtual hours": round(self.virtual_ms / 3_600_000, 2), "cpu s": round(self.cpu_s),
            "states": dict(self.states.most_common()), "failed": self.failed,
        }  # fmt: skip
        (KEPT / "night.json").write_text(json.dumps(facts, indent=1))

    @property
    def words(self) -> str:
        hours, took_s = self.virtual_ms / 3_600_000, time.monotonic() - self.began_s
        return f"{self.runs} seeds, {len(self.failed)} failed, {hours:.1f} h of virtual time in {took_s:.0f} s"


def hours_of(seed: int) -> float:
    """Return how long a seed is played."""
    return HOURS if seed % LONG_EVERY else LONG_HOURS


def fresh(until_s: float) -> Iterator[Play]:
    """Yield seeds of today as long as there is time."""
    first = int(time.time() // DAY_S % 10_000) * SEEDS_PER_DAY + int(time.time() % DAY_S)
    number = 0
    while time.monotonic() < until_s:
        yield Play(first + number, hours_of(first + number))
        number += 1


def play_again(night: Night, workload: str, rows: list[dict[str, Any]], jobs: int) -> None:
    """Play seeds that have failed once. `workload`: a file beside this one, empty: the swarm of today."""
    path = str(FAILED.with_name(workload)) if workload else ""
    hours = {row["seed"]: row["hours"] for row in rows}
    for outcome in play_many(path, [Play(seed, hours[seed]) for seed in hours], jobs):
        night.add(outcome, hours[outcome.seed], path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=0, metavar="COUNT", help="seeds 1 to COUNT, and no fresh ones")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--hours", type=float, help="instead of --minutes")
    parser.add_argument("--night", action="store_true", help="print what was seen, too")
    parser.add_argument("--jobs", type=int, default=cores())
    arguments = parser.parse_args()
    night = Night()
    rows = json.loads(FAILED.read_text())
    try:
        for workload in sorted({row.get("workload", "") for row in rows}):
            play_again(night, workload, [row for row in rows if row.get("workload", "") == workload], arguments.jobs)
        known = {row["seed"] for row in json.loads(OPEN.read_text()) if "workload" not in row}
        night.known = known if arguments.seeds else set()
        fixed = (Play(seed, hours_of(seed)) for seed in range(1, 1 + arguments.seeds))
        minutes = arguments.minutes if arguments.hours is None else 60 * arguments.hours
        chosen = fixed if arguments.seeds else fresh(time.monotonic() + 60 * minutes)
        for outcome in play_many("", chosen, arguments.jobs):
            night.add(outcome, hours_of(outcome.seed))
            if night.runs % 50 == 0:
                night.keep()
    except KeyboardInterrupt:
        print("simulation: interrupted")
    night.keep()
    for state, count in night.states.most_common(None if arguments.night else SHOWN_MAX):
        print(f"  {count:8,}  {state}")
    print(f"simulation: {night.words}; kept in {(KEPT / 'night.json').relative_to(ROOT)}")
    return 1 if night.failed else 0


if __name__ == "__main__":
    sys.exit(main())
