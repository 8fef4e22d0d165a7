"""The table of what works, for docs/compatibility.md: rows of docs/rows.toml, and the tests that carry each row's mark.

Marks are read from the syntax trees of the tests, so no test has to run.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from staticfire.launch.compat import differences
from tools.generated import markdown_table

ROOT = Path(__file__).resolve().parent.parent
STATUSES = ["done", "partly", "not yet"]


@dataclass(frozen=True)
class Row:
    """One promise."""

    id: str
    title: str
    status: str
    note: str = ""


@dataclass(frozen=True, order=True)
class MarkedTest:
    """A test, a test class or a whole file (then `name` is empty) that proves a row."""

    path: str
    name: str
    row: str


def read_rows() -> list[Row]:
    """Return the rows in the order of docs/rows.toml. Raises: TypeError for an unknown key, ValueError for a status."""
    table = tomllib.loads((ROOT / "docs" / "rows.toml").read_text())
    rows = [Row(id=row_id, **fields) for row_id, fields in table.items()]
    for row in rows:
        if row.status not in STATUSES:
            raise ValueError(f"docs/rows.toml: {row.id} has status {row.status!r}, not one of {', '.join(STATUSES)}")
    return rows


def rows_marked(node: ast.AST) -> Iterator[str]:
    """Yield the ids in each `pytest.mark.row(...)` below a node."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.row":
            for argument in call.args:
                yield ast.literal_eval(argument)


def marks_of(path: str, text: str) -> Iterator[MarkedTest]:
    """Yield the marks of a test file: of its functions and classes, and its `pytestmark`."""
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield from (MarkedTest(path, node.name, row) for row in rows_marked(decorator))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield from (MarkedTest(path, "", row) for row in rows_marked(node.value))


def read_marks() -> list[MarkedTest]:
    """Return the marks of all tests, by path and name."""
    found: set[MarkedTest] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        found.update(marks_of(file.relative_to(ROOT).as_posix(), file.read_text()))
    return sorted(found)


def complaints(rows: list[Row], marks: list[MarkedTest]) -> list[str]:
    """Return inconsistencies: a row that is called done without a test, a mark for a row that doesn't exist."""
    known, shown = {row.id for row in rows}, {mark.row for mark in marks}
    unshown = [row.id for row in rows if row.status == "done" and row.id not in shown]
    unknown = [mark for mark in marks if mark.row not in known]
    return [
        *(f"{row_id} is called done, but no test carries its mark" for row_id in unshown),
        *(f"{mark.path}: {mark.name or 'pytestmark'} is marked {mark.row}, which is no row" for mark in unknown),
    ]


def tests_of(row: Row, marks: list[MarkedTest]) -> str:
    """Return the tests of a row as a Markdown list: one line for each file."""
    names: dict[str, list[str]] = {}
    for mark in marks:
        if mark.row == row.id:
            names.setdefault(mark.path, []).append(f"`{mark.name}`" if mark.name else "all of it")
    return "\n".join(f"  - [{path}](../{path}): {', '.join(found)}" for path, found in names.items())


def compatibility_table() -> str:
    """Return the table of all rows, followed by the tests of each."""
    rows, marks = read_rows(), read_marks()
    counts = [f"{sum(row.status == status for row in rows)} {status}" for status in STATUSES]
    table = markdown_table(
        ["row", "what", "status", "note"], [[row.id, row.title, row.status, row.note] for row in rows]
    )
    shown = [f"- **{row.id}** {row.title}\n{tests_of(row, marks)}" for row in rows if tests_of(row, marks)]
    listed = ["The tests that show them:", "\n".join(shown)] if shown else []
    return "\n\n".join([f"{len(rows)} rows: {', '.join(counts)}.", table, *listed])


def difference_table() -> str:
    """Return the table of differences from RocketMQ, with the setting that turns each off."""
    rows = []
    for one in differences():
        off = f" (`{one.setting}={one.value}`: as RocketMQ)" if one.setting else ""
        rows.append([one.what, one.rocketmq, f"{one.ours}{off}"])
    return markdown_table(["what", "RocketMQ 5.3", "staticfire"], rows)
