"""The generated parts of docs/troubles.md: links to reports of each trouble, and the numbers from its example."""

from functools import cache
from pathlib import Path

from staticfire.simulation.troubles import Trouble
from staticfire.simulation.troubles.telling import find_trouble, lines_of
from tools.generated import markdown_table

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "troubles"


def trouble_names() -> list[str]:
    """Return the names of all troubles."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


@cache
def played(name: str) -> tuple[Trouble, list[dict[str, object]]]:
    """Return a trouble and one line per way of it. All ten take seconds of CPU time."""
    trouble = find_trouble(str(EXAMPLES / f"{name}.py"))
    assert trouble is not None, name
    return trouble, lines_of(trouble)


def trouble_part(name: str) -> str:
    """Return the links of a trouble, the command that plays it, and its results."""
    trouble, lines = played(name)
    links = ", ".join(f"[{thread}]({link})" for thread, link in zip(trouble.threads, trouble.links, strict=True))
    table = markdown_table(list(lines[0]), [[str(cell) for cell in line.values()] for line in lines])
    return f"Reported in {links}; `staticfire simulate examples/troubles/{name}.py`:\n\n{table}"
