"""Tests look at the program as its users do, not at its private attributes.

A test that reads private state fails when an attribute is renamed, and stays green when nobody calls the code any more.
A test of something that can't be seen from outside says why: `# house: <why>`. Mutants are left out: each of them is a
private function that is replaced.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Finding, Rule, Source, check, found, sources

MUTANTS = ("tests", "mutants")
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Public in spite of their names: of named tuples, and of `os`."""
BY_NAME = {"getattr", "setattr", "delattr", "hasattr"}


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def private_of(source: Source) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield private names of others: attributes, attributes by name, and imports."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            yield node, node.attr
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in BY_NAME and is_private(node.args[1].value) and not is_own(node.args[0]):
                yield node, str(node.args[1].value)
    for name, statement in source.imports():
        if is_private(name.rpartition(".")[2]):
            yield statement, name.rpartition(".")[2]


def private_state() -> Iterator[Finding]:
    for source in sources("tests"):
        if source.path.parts[:2] != MUTANTS:
            for node, name in private_of(source):
                yield found(source, node, f"uses {name}: look at what users can see")


RULES = [private_state]


@pytest.mark.parametrize("rule", RULES)
def test_no_test_reaches_into_private_state(rule: Rule) -> None:
    check(rule)
