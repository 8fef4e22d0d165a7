"""Our own code as syntax trees, for tests that look at how it is written.

A line that ends in `# house: <why>` is an exception to these tests, with its reason on it.
"""

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LAYERS = ["protocol", "runtime", "nameserver", "broker", "client", "faults", "pipeline", "staticfire"]
"""The folders that are the program, bottom first; staticfire/ is the face and holds a link to each of the others."""

AROUND = ["tests", "benchmarks", "examples", "tools"]
EXCEPTION = re.compile(r"#\s*house: \S+")


@dataclass(frozen=True)
class Source:
    """One file of ours."""

    path: Path
    text: str

    @property
    def folder(self) -> str:
        """The top-level folder that it stands in."""
        return self.path.parts[0]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    def place(self, node: ast.stmt | ast.expr) -> str:
        """Return `path:line`, as editors open it."""
        return f"{self.path}:{node.lineno}"

    def is_exception(self, node: ast.stmt | ast.expr) -> bool:
        lines = self.text.splitlines()[node.lineno - 1 : node.end_lineno]
        return any(EXCEPTION.search(line) for line in lines)

    def imports(self) -> Iterator[tuple[str, ast.stmt]]:
        """Yield the full name of each module or name that it imports, with the statement."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((f"{'.' * node.level}{node.module or ''}.{alias.name}", node) for alias in node.names)

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


def sources(*folders: str) -> list[Source]:
    """Return the Python files of these top-level folders, sorted; the links in staticfire/ are not followed."""
    found: list[Source] = []
    for folder in folders:
        for parent, _, names in os.walk(ROOT / folder):
            paths = [Path(parent, name) for name in names if name.endswith(".py")]
            found.extend(Source(path.relative_to(ROOT), path.read_text()) for path in paths)
    return sorted(found, key=lambda source: source.path)
