"""The generated parts of docs/troubles.md: who tells of a trouble, and the numbers that its example prints."""

from functools import cache
from pathlib import Path

from staticfire.simulation.troubles import Trouble
from staticfire.simulation.troubles.telling import find_trouble, lines_of
from tools.generated import markdown_table

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "troubles"


def trouble_names() -> list[str]:
    """Return the names of all that are told."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


@cache
def told(name: str) -> tuple[Trouble, list[dict[str, object]]]:
    """Return a trouble and a line per way of it: seconds of a core for all ten."""
    trouble = find_trouble(str(EXAMPLES / f"{name}.py"))
    assert trouble is not None, name
    return trouble, lines_of(trouble)


def trouble_part(name: str) -> str:
    """Return the threads of a trouble, how to play it, and what comes of it."""
    trouble, lines = told(name)
    links = ", ".join(f"[{thread}]({link})" for thread, link in zip(trouble.threads, trouble.links, strict=True))
    table = markdown_table(list(lines[0]), [[str(cell) for cell in line.values()] for line in lines])
    return f"Told in {links}; `staticfire simulate examples/troubles/{name}.py`:\n\n{table}"
