"""The figures of README: `make figures` measures them and writes benchmarks/recorded/figures.json, `make docs` README.

They are few, and about what a user notices who tries staticfire in a test. `make bench` has all others.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.goals import GOALS
from tools.generated import markdown_table

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "benchmarks" / "results" / "latest.json"
RECORDED = ROOT / "benchmarks" / "recorded" / "figures.json"
LOAD_MAX = 2
"""With more than that before it begins, times are too long, and README says so."""
ROUNDS = 5
"""The best one counts, since other programs on the machine only ever make a figure worse."""
WORDS = {
    "idle_pss_mib": "Memory of nameserver and broker",
    "ready_ms": "From the command `staticfire up` to the first possible request",
    "consumer_first_message_ms": "From the start of a consumer to its first message",
    "dlq_road_ms": "A message fails 17 times and becomes a dead letter",
    "fixture_test_ms": "A new, empty cluster for each further test",
}


def figures_table() -> str:
    """Return README's table: what, staticfire, RocketMQ 5.3.3; below it, how and where it was measured."""
    recorded = json.loads(RECORDED.read_text())
    goals = {goal.key: goal for goal in GOALS}
    rows = [
        [words, f"{recorded['figures'][key]:,.0f} {goals[key].unit}", _other(goals[key].rocketmq, goals[key].unit)]
        for key, words in WORDS.items()
    ]
    return f"{markdown_table(['', 'staticfire', 'RocketMQ 5.3.3'], rows)}\n\n{_conditions(recorded)}"


def _other(figure: str, unit: str) -> str:
    return f"{figure} {unit}" if figure and figure[-1].isdigit() else figure


def _conditions(recorded: dict[str, Any]) -> str:
    machine, load = recorded["machine"], round(recorded["load"])
    others = f", which other programs used, too (a load of {load})" if load > LOAD_MAX else ""
    return (
        f"`make figures` measures the staticfire column: the best of {ROUNDS} rounds, on {recorded['day']}, on "
        f"{machine['cores']} cores ({machine['cpu']}){others}. The RocketMQ column was measured earlier on two such "
        "cores. Sends and pulls per second: [performance](docs/performance.md)."
    )


def main() -> None:
    """Measure, and record the best of each figure."""
    command = [sys.executable, "-m", "benchmarks", "--rounds", "1", "--only", ",".join(WORDS), *sys.argv[1:]]
    load = os.getloadavg()[0]
    rounds = []
    for _ in range(ROUNDS):
        subprocess.run(command, cwd=ROOT, check=True)
        rounds.append(json.loads(MEASURED.read_text()))
    figures = {key: min(measured["figures"][key] for measured in rounds) for key in WORDS}
    day = datetime.now(UTC).date().isoformat()
    document = {"day": day, "machine": rounds[0]["machine"], "load": load, "figures": figures}
    RECORDED.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
