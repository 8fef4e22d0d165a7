"""Writes the generated parts of docs/ (`make docs`); tests/house/test_docs.py fails when one of them is stale.

A further part is one line in PARTS, and its pair of marker lines in the document. Those that take seconds are in
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
from tools.generated import replace_part
from tools.performance import performance_curves
from tools.simulation import mutant_table, promise_table, strike_table
from tools.troubles import trouble_names, trouble_part

ROOT = Path(__file__).resolve().parent.parent

Part = tuple[str, str, Callable[[], str]]
"""Document, name of the part, what writes it."""


def protection_table() -> str:
    """Return what protection of a group does, as an example measures it."""
    command = [sys.executable, "examples/groups/protection.py", "--markdown"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


PARTS: list[Part] = [
    ("docs/command-line.md", "family", family_table),
    ("docs/command-line.md", "mqadmin", mqadmin_table),
    ("docs/compatibility.md", "rows", compatibility_table),
    ("docs/compatibility.md", "differences", difference_table),
    ("docs/compatibility.md", "codes", request_code_table),
    ("docs/configuration.md", "settings", settings_tables),
    ("docs/performance.md", "curves", performance_curves),
    ("docs/protocol.md", "commands", command_tables),
    ("docs/simulation.md", "strikes", strike_table),
    ("docs/simulation.md", "promises", promise_table),
    ("docs/simulation.md", "mutants", mutant_table),
]
SLOW_PARTS: list[Part] = [("docs/groups.md", "protection", protection_table)]
TROUBLE_PARTS: list[Part] = [("docs/troubles.md", name, partial(trouble_part, name)) for name in trouble_names()]
# Beside these; `make test-simulation` looks whether they are fresh.


def fresh_documents(parts: Sequence[Part] = PARTS) -> dict[str, str]:
    """Return path -> text of each document with generated parts, as it should be."""
    texts: dict[str, str] = {}
    for path, name, write in parts:
        texts[path] = replace_part(texts.get(path) or (ROOT / path).read_text(), name, write())
    return texts


def main() -> None:
    """Write the documents that are stale."""
    parts = PARTS + SLOW_PARTS + TROUBLE_PARTS if "--all" in sys.argv else PARTS
    for path, text in fresh_documents(parts).items():
        if (ROOT / path).read_text() != text:
            (ROOT / path).write_text(text)
            print(f"docs: wrote {path}")


if __name__ == "__main__":
    main()
