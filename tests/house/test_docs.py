"""The generated parts and references in docs/ match the code and the tests."""

import re

import pytest

from staticfire.protocol.requests.journal import KINDS
from tests.house.source import ROOT
from tools.compatibility import MarkedTest, Row, complaints, marks_of, read_marks, read_rows
from tools.docs import SLOW_PARTS, fresh_documents
from tools.generated import PartMissing, replace_part

PATH = re.compile(r"`([\w<>/]+(?:\.(?:py|c|sh)|/))`")

MARKED_FILE = """
import pytest
pytestmark = [pytest.mark.row("E1"), pytest.mark.slow]

@pytest.mark.row("P5", "F1")
async def test_held(): ...

class TestPull:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row("P3"))])
    def test_one(self, x): ...
"""


def test_generated_parts_are_fresh() -> None:
    stale = [path for path, text in fresh_documents().items() if (ROOT / path).read_text() != text]
    assert not stale, f"run `make docs`: {', '.join(stale)}"


@pytest.mark.slow
def test_generated_parts_that_take_long_are_fresh() -> None:
    stale = [path for path, text in fresh_documents(SLOW_PARTS).items() if (ROOT / path).read_text() != text]
    assert not stale, f"run `make docs ALL=1`: {', '.join(stale)}"


def test_the_architectures_paths_are_there() -> None:
    """In an item or paragraph, a bare file name is in the folder of the path before it, or in a folder above that."""
    missing = []
    for item in re.split(r"\n(?=- |\||\n)", (ROOT / "docs" / "architecture.md").read_text()):
        folder = ROOT
        for named in PATH.findall(item):
            if "<" in named:
                continue
            places = [ROOT] if "/" in named.rstrip("/") else [folder, *folder.parents]
            found = next((place / named for place in places if (place / named).exists()), None)
            if found is None:
                missing.append(named)
            else:
                folder = found if named.endswith("/") else found.parent
    assert not missing, ", ".join(missing)


def test_contributing_names_each_folder_of_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [folder.name for folder in (ROOT / "tests").iterdir() if list(folder.glob("*.py"))]
    missing = [name for name in folders if f"`{name}`" not in text and f"`tests/{name}`" not in text]
    assert not missing, ", ".join(sorted(missing))


def test_the_page_about_the_journal_has_each_kind() -> None:
    page = (ROOT / "docs" / "journal.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []


def test_no_row_of_a_table_is_there_twice() -> None:
    """In a table of two columns, the first cell is what a reader looks up."""
    twice = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for table in re.split(r"\n(?!\|)", page.read_text()):
            rows = [row.split("|") for row in re.findall(r"^\|.*$", table, re.MULTILINE)[2:]]
            cells = [row[1].strip() for row in rows if len(row) == 4]
            twice += [f"{page.name}: {cell}" for cell in {cell for cell in cells if cell and cells.count(cell) > 1}]
    assert not twice, ", ".join(twice)


def test_rows_and_marks_fit_together() -> None:
    wrong = complaints(read_rows(), read_marks())
    assert not wrong, "\n".join(wrong)


def test_marks_are_found_on_files_functions_and_parameters() -> None:
    assert sorted(marks_of("tests/x.py", MARKED_FILE)) == [
        MarkedTest("tests/x.py", "", "E1"),
        MarkedTest("tests/x.py", "test_held", "F1"),
        MarkedTest("tests/x.py", "test_held", "P5"),
        MarkedTest("tests/x.py", "test_one", "P3"),
    ]


def test_a_row_called_done_needs_a_test_and_a_mark_needs_a_row() -> None:
    rows = [Row("P5", "Long polling", "done"), Row("H1", "Routes", "done"), Row("H2", "Heartbeats", "partly")]
    assert complaints(rows, [MarkedTest("tests/x.py", "test_held", "P5"), MarkedTest("tests/x.py", "", "P55")]) == [
        "H1 is called done, but no test carries its mark",
        "tests/x.py: pytestmark is marked P55, which is no row",
    ]


def test_only_the_generated_part_of_a_document_is_replaced() -> None:
    document = "before\n<!-- generated: codes -->\nold\n<!-- end: codes -->\nafter\n"
    assert replace_part(document, "codes", "| new |") == (
        "before\n<!-- generated: codes -->\n\n| new |\n\n<!-- end: codes -->\nafter\n"
    )
    with pytest.raises(PartMissing, match="generated: rows"):
        replace_part(document, "rows", "| new |")
