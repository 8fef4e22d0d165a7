"""Files, classes, functions and parameter lists don't get too large.

Anything larger should be divided, or state with `# house: <why>` in its first lines why not. In a file, these are the
lines before its first definition.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import AROUND, LAYERS, Definition, Finding, Rule, check, found_in_head, sources

FILE_LINES_MAX = 400
CLASS_LINES_MAX = 250
FUNCTION_LINES_MAX = 50
PARAMETERS_MAX = 7
"""Without self. The flags of a command don't count."""


def long_files() -> Iterator[Finding]:
    for source in sources(*LAYERS, *AROUND):
        if len(source.lines) > FILE_LINES_MAX:
            begin = min((node.lineno for node in source.tree.body if isinstance(node, Definition)), default=2)
            yield Finding(source, 1, begin - 1, f"{len(source.lines)} lines")


def long_classes() -> Iterator[Finding]:
    for source in sources(*LAYERS, *AROUND):
        for node in source.definitions():
            if isinstance(node, ast.ClassDef) and lines_of(node) > CLASS_LINES_MAX:
                yield found_in_head(source, node, f"class {node.name}: {lines_of(node)} lines")


def long_functions() -> Iterator[Finding]:
    for source in sources(*LAYERS, *AROUND):
        for node in source.definitions():
            if not isinstance(node, ast.ClassDef) and lines_of(node) > FUNCTION_LINES_MAX:
                yield found_in_head(source, node, f"{node.name}(): {lines_of(node)} lines")


def many_parameters() -> Iterator[Finding]:
    for source in sources(*LAYERS, *AROUND):
        for node in source.definitions():
            if isinstance(node, ast.ClassDef) or is_command(node):
                continue
            count = len(parameters(node))
            if count > PARAMETERS_MAX:
                yield found_in_head(source, node, f"{node.name}(): {count} parameters; some of them are one value")


def lines_of(node: Definition) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether click calls this function, with its flags."""
    return any("command(" in ast.unparse(decorator) for decorator in node.decorator_list)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


RULES = [long_files, long_classes, long_functions, many_parameters]


@pytest.mark.parametrize("rule", RULES)
def test_nothing_has_grown_too_large(rule: Rule) -> None:
    check(rule)
