"""The project's own code as syntax trees, for tests of how it is written.

A rule is a function that yields findings that break it. A comment `# house: <why>` on one of a finding's lines makes it
an exception, with the reason. test_exceptions.py finds exceptions that are no longer needed.
"""

import ast
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LAYERS = [
    "protocol",
    "runtime",
    "nameserver",
    "broker",
    "client",
    "faults",
    "failover",
    "simulation",
    "pipeline",
    "proxy",
    "staticfire",
]
"""The folders of the program, lowest layer first. staticfire/ is the public API and links to each of the others."""

AROUND = ["tests", "benchmarks", "examples", "tools"]
EXCEPTION = re.compile(r"(?<![`\w])#\s*house: \w")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """One Python file of the project."""

    path: Path
    text: str

    @property
    def folder(self) -> str:
        """Its top-level folder."""
        return self.path.parts[0]

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        parts = self.path.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        return ".".join(parts if parts[0] == "staticfire" else ("staticfire", *parts))

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def exceptions(self) -> set[int]:
        """The numbers of the lines, from 1, with a reason for breaking a rule."""
        return {number for number, line in enumerate(self.lines, 1) if EXCEPTION.search(line)}

    def place(self, node: ast.stmt | ast.expr) -> str:
        """Return `path:line`, which editors can open."""
        return f"{self.path}:{node.lineno}"

    def imports(self) -> Iterator[tuple[str, ast.stmt]]:
        """Yield the full name of each module or name that it imports, with the statement."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((f"{'.' * node.level}{node.module or ''}.{alias.name}", node) for alias in node.names)

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes if isinstance(node, ast.Call))

    def definitions(self) -> Iterator[Definition]:
        return (node for node in self.nodes if isinstance(node, Definition))


@dataclass(frozen=True)
class Finding:
    """Code that breaks a rule: a description, and the first and last line."""

    source: Source
    first: int
    last: int
    words: str

    def __str__(self) -> str:
        return f"{self.source.path}:{self.first} {self.words}"

    @property
    def excuses(self) -> set[int]:
        """Its lines with a reason for breaking the rule."""
        return self.source.exceptions & set(range(self.first, self.last + 1))


Rule = Callable[[], Iterator[Finding]]

BEING_MENDED: dict[str, str] = {}
"""Findings that are being fixed, as pattern -> reason. A pattern that matches nothing any more fails a test, too."""


def found(source: Source, node: ast.stmt | ast.expr, words: str) -> Finding:
    """Return a finding about a statement or an expression."""
    return Finding(source, node.lineno, node.end_lineno or node.lineno, words)


def found_in_head(source: Source, node: Definition, words: str) -> Finding:
    """Return a finding about a function or class. An exception must be in its first lines, before the body."""
    return Finding(source, node.lineno, max(node.lineno, node.body[0].lineno - 1), words)


def check(rule: Rule) -> None:
    """Fail with everything that breaks a rule without a reason."""
    wrong = [str(finding) for finding in rule() if not finding.excuses]
    wrong = [words for words in wrong if not any(re.search(known, words) for known in BEING_MENDED)]
    assert not wrong, "\n".join(wrong)


def sources(*folders: str) -> list[Source]:
    """Return the Python files of these top-level folders, sorted. The links in staticfire/ aren't followed."""
    return [source for folder in folders for source in _sources_of(folder)]


@cache
def _sources_of(folder: str) -> list[Source]:
    found: list[Source] = []
    for parent, _, names in os.walk(ROOT / folder):
        paths = [Path(parent, name) for name in names if name.endswith(".py")]
        found.extend(Source(path.relative_to(ROOT), path.read_text()) for path in paths)
    return sorted(found, key=lambda source: source.path)
