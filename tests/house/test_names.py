"""Class names are unique, and the docstring of a package mentions each of its modules."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import AROUND, LAYERS, ROOT, Finding, Rule, Source, check, found_in_head, sources

MENTIONED = re.compile(r"(?<![\w/.])(\w+\.(?:py|sh)|\w+/)(?!\w)")
ENTRIES = {"__init__.py", "__main__.py"}


def class_names_used_twice() -> Iterator[Finding]:
    first: dict[str, Source] = {}
    for source in sources(*LAYERS):
        for node in source.definitions():
            if isinstance(node, ast.ClassDef) and first.setdefault(node.name, source) is not source:
                yield found_in_head(source, node, f"class {node.name} is one of {first[node.name].path}, too")


def modules_on_no_map() -> Iterator[Finding]:
    for source in packages():
        for name in sorted(contents(source) - mentioned(source)):
            yield Finding(source, 1, 1, f"the docstring says nothing of {name}: a few words on what it is")


def maps_of_what_is_gone() -> Iterator[Finding]:
    for source in packages():
        for name in sorted(mentioned(source) - contents(source) - ENTRIES):
            if not any(Path(ROOT, folder, name).exists() for folder in (source.path.parent, "")):
                yield Finding(source, 1, 1, f"the docstring mentions {name}, which isn't there")


def packages() -> Iterator[Source]:
    return (source for source in sources(*LAYERS, *AROUND) if source.path.name == "__init__.py")


def contents(package: Source) -> set[str]:
    """Return the modules of a package, and its subpackages with a slash."""
    folder = Path(ROOT, package.path.parent)
    modules = {path.name for path in folder.glob("*.py")} - ENTRIES
    return modules | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}


def mentioned(package: Source) -> set[str]:
    return set(MENTIONED.findall(ast.get_docstring(package.tree) or ""))


RULES = [class_names_used_twice, modules_on_no_map, maps_of_what_is_gone]


@pytest.mark.parametrize("rule", RULES)
def test_names_lead_to_what_they_name(rule: Rule) -> None:
    check(rule)
