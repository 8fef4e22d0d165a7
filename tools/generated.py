"""Generated parts of a document, between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.

Everything around them is written by hand. A part is found by its name, so it can be moved within its document.
"""

import re


class PartMissing(ValueError):
    """A document doesn't have such a part, or has it twice."""


def replace_part(document: str, name: str, content: str) -> str:
    """Return the document with `content` (Markdown) as its generated part `name`. Raises: PartMissing."""
    start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(start)}\n.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise PartMissing(f"a document needs the lines `{start}` and `{end}` once")
    return pattern.sub(lambda _: f"{start}\n\n{content.strip()}\n\n{end}", document)


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table. Vertical bars in cells are escaped."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
