"""The examples of Python on all pages: they compile, what they import is there, and some are run as they stand."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import staticfire
from tests.cli.commands import ROOT

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_they_compile_and_their_imports_are_there(page: Path) -> None:
    lost = []
    for example in EXAMPLE.findall(page.read_text()):
        tree = compile(example, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("staticfire"):
                continue
            if ".pipeline" in (module := node.module or ""):
                continue  # Spark is an extra, which not every environment has.
            lost += [f"{module}.{one.name}" for one in node.names if not hasattr(import_module(module), one.name)]
    assert lost == []


@pytest.mark.parametrize("page", ["time.md", "faults.md"])
def test_the_first_one_runs(page: str) -> None:
    first = EXAMPLE.findall((ROOT / "docs" / page).read_text())[0]
    exec(first, {name: getattr(staticfire, name) for name in ("Cluster", "Message", "Producer")})
