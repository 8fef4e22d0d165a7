"""Writes the generated parts of docs/ (`make docs`); tests/house/test_docs.py fails when one of them is stale.

A further part is one line in PARTS, and its pair of marker lines in the document.
"""

from collections.abc import Callable
from pathlib import Path

from tools.commands import command_tables, request_code_table
from tools.compatibility import compatibility_table
from tools.generated import replace_part
from tools.performance import performance_curves

ROOT = Path(__file__).resolve().parent.parent

PARTS: list[tuple[str, str, Callable[[], str]]] = [
    ("docs/compatibility.md", "rows", compatibility_table),
    ("docs/compatibility.md", "codes", request_code_table),
    ("docs/performance.md", "curves", performance_curves),
    ("docs/protocol.md", "commands", command_tables),
]
"""Document, name of the part, what writes it."""


def fresh_documents() -> dict[str, str]:
    """Return path -> text of each document with generated parts, as it should be."""
    texts: dict[str, str] = {}
    for path, name, write in PARTS:
        texts[path] = replace_part(texts.get(path) or (ROOT / path).read_text(), name, write())
    return texts


def main() -> None:
    """Write the documents that are stale."""
    for path, text in fresh_documents().items():
        if (ROOT / path).read_text() != text:
            (ROOT / path).write_text(text)
            print(f"docs: wrote {path}")


if __name__ == "__main__":
    main()
