"""The generated part of docs/decisions/README.md: a list of the decisions, by their headings."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
HEADING = re.compile(r"# (\d+)\.? (.+)")


def decision_list() -> str:
    """Return a line with a link for each decision, in the order of their numbers."""
    lines = []
    for path in sorted(FOLDER.glob("0*.md")):
        heading = HEADING.match(path.read_text())
        assert heading is not None, f"{path.name} begins with no `# number. title`"
        lines.append(f"- [{path.name[:4]}]({path.name}): {heading[2]}")
    return "\n".join(lines)
