"""Write the generated parts of docs/ (`make docs`). tests/house/test_docs.py fails if one of them is out of date.

To add a part, add one line to PARTS and a pair of marker lines to the document. Parts that take seconds are in
SLOW_PARTS: `make docs ALL=1` writes them, too.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.command_line import family_table, mqadmin_table
from tools.commands import command_tables, request_code_table
from tools.compatibility import compatibility_table, difference_table
from tools.configuration import settings_tables
from tools.decisions import decision_list
from tools.figures import figures_table
from tools.generated import replace_part
from tools.performance import performance_curves, performance_figures
from tools.simulation import mutant_table, promise_table, strike_table
from tools.troubles import trouble_names, trouble_part

ROOT = Path(__file__).resolve().parent.parent

Part = tuple[str, str, Callable[[], str]]
"""The document, the name of the part, and the function that returns its text."""


def protection_table() -> str:
    """Return the table of what group protection does, as an example measures it."""
    command = [sys.executable, "examples/groups/protection.py", "--markdown"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def path_table() -> str:
    """Return the table of how long the paths of requests are (`make roads`)."""
    command = [sys.executable, "-m", "benchmarks.request_paths"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


PARTS: list[Part] = [
    ("README.md", "figures", figures_table),
    ("docs/command-line.md", "family", family_table),
    ("docs/command-line.md", "mqadmin", mqadmin_table),
    ("docs/compatibility.md", "rows", compatibility_table),
    ("docs/compatibility.md", "differences", difference_table),
    ("docs/compatibility.md", "codes", request_code_table),
    ("docs/configuration.md", "settings", settings_tables),
    ("docs/decisions/README.md", "decisions", decision_list),
    ("docs/performance.md", "figures", performance_figures),
    ("docs/performance.md", "curves", performance_curves),
    ("docs/protocol.md", "commands", command_tables),
    ("docs/simulation.md", "strikes", strike_table),
    ("docs/simulation.md", "promises", promise_table),
    ("docs/simulation.md", "mutants", mutant_table),
]
SLOW_PARTS: list[Part] = [
    ("docs/architecture.md", "paths", path_table),
    ("docs/groups.md", "protection", protection_table),
]
# In addition to these; `make test-simulation` checks whether they are up to date.
TROUBLE_PARTS: list[Part] = [("docs/troubles.md", name, partial(trouble_part, name)) for name in trouble_names()]


def fresh_documents(parts: Sequence[Part] = PARTS) -> dict[str, str]:
    """Return path -> up-to-date text of each document with generated parts."""
    texts: dict[str, str] = {}
    for path, name, write in parts:
        texts[path] = replace_part(texts.get(path) or (ROOT / path).read_text(), name, write())
    return texts


def main() -> None:
    """Write the documents that are out of date."""
    parts = PARTS + SLOW_PARTS + TROUBLE_PARTS if "--all" in sys.argv else PARTS
    for path, text in fresh_documents(parts).items():
        if (ROOT / path).read_text() != text:
            (ROOT / path).write_text(text)
            print(f"docs: wrote {path}")


if __name__ == "__main__":
    main()
