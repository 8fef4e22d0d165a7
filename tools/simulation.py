"""The generated parts of docs/simulation.md: what can break, what is checked, which mutants were found."""

import json
from pathlib import Path

from staticfire.simulation.checkers import CHECKERS
from staticfire.simulation.workload.strikes import STRIKES
from tests.mutants.mutants import MUTANTS
from tools.generated import markdown_table

KNOWN = Path(__file__).resolve().parent.parent / "tests" / "mutants" / "known.json"


def strike_table() -> str:
    """Return the faults by their names."""
    rows = [
        [f"`{name}`", kind.at.value, kind.words + ("" if kind.is_usual else " (only where `may` names it)")]
        for name, kind in STRIKES.items()
    ]
    return markdown_table(["fault", "hits", "what happens"], rows)


def promise_table() -> str:
    """Return what is checked."""
    return markdown_table(["checker", "promise"], [[f"`{one.__name__}`", one.promise] for one in CHECKERS])


def mutant_table() -> str:
    """Return which mutants were found, by which seed and checker."""
    rows = [[row["mutant"], str(row["seed"]), f"`{row['checker']}`"] for row in json.loads(KNOWN.read_text())]
    missing = [name for name in MUTANTS if name not in {row[0] for row in rows}]
    words = f"\n\nNot found yet: {'; '.join(missing)}." if missing else ""
    return markdown_table(["what is broken", "seed", "noticed by"], rows) + words
