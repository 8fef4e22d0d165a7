"""The generated parts of docs/simulation.md: the faults, the checkers, and the mutants that were found."""

import json
from pathlib import Path

from staticfire.simulation.checkers import CHECKERS
from staticfire.simulation.workload.strikes import STRIKES
from tests.mutants.mutants import MUTANTS
from tools.generated import markdown_table

KNOWN = Path(__file__).resolve().parent.parent / "tests" / "mutants" / "known.json"


def strike_table() -> str:
    """Return the table of faults."""
    rows = [
        [f"`{name}`", kind.at.value, kind.words + ("" if kind.is_usual else " (only where `may` names it)")]
        for name, kind in STRIKES.items()
    ]
    return markdown_table(["fault", "hits", "what happens"], rows)


def promise_table() -> str:
    """Return the table of checkers."""
    return markdown_table(["checker", "promise"], [[f"`{one.__name__}`", one.promise] for one in CHECKERS])


def mutant_table() -> str:
    """Return the table of mutants, with the seed and the checker that found each."""
    rows = [[row["mutant"], str(row["seed"]), f"`{row['checker']}`"] for row in json.loads(KNOWN.read_text())]
    missing = [name for name in MUTANTS if name not in {row[0] for row in rows}]
    words = f"\n\nNot found yet: {'; '.join(missing)}." if missing else ""
    return markdown_table(["what is broken", "seed", "noticed by"], rows) + words
