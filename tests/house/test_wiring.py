"""How objects are connected: an object gets what it needs in its constructor, and keeps its parts to itself."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import LAYERS, Finding, Rule, Source, check, found, sources


def callables_set_later() -> Iterator[Finding]:
    """Find public attributes for callables that are empty at first: forgetting to set one fails only at run time."""
    aliases = {name for source in sources(*LAYERS) for name in callable_aliases(source)}
    for source in sources(*LAYERS):
        for node in source.nodes:
            if isinstance(node, ast.AnnAssign) and is_public_attribute(node.target) and is_nothing(node.value):
                names = {each.id for each in ast.walk(node.annotation) if isinstance(each, ast.Name)}
                if names & {"Callable", *aliases}:
                    yield found(source, node, f"{ast.unparse(node.target)} is set later: take it in the constructor")


def packed_arguments() -> Iterator[Finding]:
    for source in sources(*LAYERS):
        for call in source.calls():
            if any(isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple) for each in call.args):
                yield found(source, call, "packs arguments to keep a call short: some of them are one value")


def store_bypassed() -> Iterator[Finding]:
    """Find code that uses the log directly instead of the store that owns it."""
    for source in sources(*LAYERS):
        if source.path.parts[:2] == ("broker", "store"):
            continue
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "log" and last_name(node.value) in {"store", "_store"}:
                yield found(source, node, "uses the log of the store: ask the store")


def callable_aliases(source: Source) -> Iterator[str]:
    """Yield the names that a module gives to types of callables."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and "Callable[" in ast.unparse(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                yield target.id


def is_public_attribute(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and last_name(target.value) == "self" and not target.attr.startswith("_")


def is_nothing(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Constant) and value.value is None)


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


RULES = [callables_set_later, packed_arguments, store_bypassed]


@pytest.mark.parametrize("rule", RULES)
def test_parts_are_given_what_they_need(rule: Rule) -> None:
    check(rule)
