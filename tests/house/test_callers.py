"""All code of the program is used by the program itself, not only by tests; what an object keeps is read somewhere.

Otherwise a test that calls it directly stays green, although for example a counter is never incremented. Uses are
searched by name, in the program, its examples, tools and benchmarks. A name that two classes share counts for both.
"""

import ast
import importlib
from collections.abc import Iterator

from tests.house.source import LAYERS, Finding, Source, check, found, sources

ALLOWED = {
    "RocketMQFacts.is_real": "for users of the fixture, whose tests run against both",
    "frames": "HTTP/2 numbers its frames and settings: names of all of them, in its order",
    "PushingReader.pushFilters": "called by Spark",
    "LazyCommands": "called by click",
    "AnyCase": "called by click",
    "pytest_": "called by pytest",
}
"""Names, prefixes of names, or modules, and why the project's own code doesn't use them."""
OUR_DECORATORS = {"property", "staticmethod", "classmethod", "cached_property", "cache", "contextmanager", "override"}
"""Decorators that don't call the function. Any other decorator passes the function to code that calls it."""
FREE_BASES = {"Generic", "Protocol", "NamedTuple", "Struct", "Enum", "IntEnum", "Exception", "ValueError", "Error"}
MADE_FOR_TESTS = ("simulation", "world")


def names_used() -> set[str]:
    used: set[str] = set()
    for source in sources(*LAYERS, "examples", "tools", "benchmarks"):
        for node in source.nodes:
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.keyword) and node.arg:
                used.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.update(node.value.split("."))  # by getattr, or a path for the command line
    return used


def definitions(source: Source, ours: set[str], public: set[str]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield functions, constants, and methods of classes that only our code calls, with their names."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            names = [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            yield from ((each.id, node) for each in names)
    for each in source.nodes:
        if isinstance(each, ast.ClassDef) and each.name not in public and ours.issuperset(bases(each)):
            methods = (one for one in each.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            yield from ((f"{each.name}.{method.name}", method) for method in methods)


def bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def is_handed_over(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(each).partition("(")[0].rpartition(".")[2] not in OUR_DECORATORS for each in decorators)


def is_allowed(source: Source, name: str) -> bool:
    return any(name.startswith(known) or source.path.stem == known for known in ALLOWED)


def without_callers() -> Iterator[Finding]:
    public = set(importlib.import_module("staticfire").__all__)
    ours = {node.name for source in sources(*LAYERS) for node in source.definitions()} | FREE_BASES
    used = names_used() | public
    for source in sources(*LAYERS):
        if source.path.parts[:2] == MADE_FOR_TESTS:
            continue
        for name, node in definitions(source, ours, public):
            own = name.rpartition(".")[2]
            if own in used or own.startswith("__") or is_handed_over(node) or is_allowed(source, name):
                continue
            yield found(source, node, f"{name} has no caller in the program: call it where it belongs, or remove it")


def test_everything_has_a_caller_outside_of_tests() -> None:
    check(without_callers)


def attributes_read() -> set[str]:
    read: set[str] = set()
    for source in sources(*LAYERS, "examples", "tools", "benchmarks"):
        slots = {id(each) for node in source.nodes if is_slots(node) for each in ast.walk(node)}
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                read.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in slots:
                read.update(node.value.split("."))  # by getattr, or by a path
            elif isinstance(node, ast.MatchClass):
                read.update(node.kwd_attrs)
    return read


def is_slots(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == "__slots__" for target in node.targets)


def never_read() -> Iterator[Finding]:
    """Find attributes that an object sets on itself, and that no code reads."""
    read = attributes_read()
    for source in sources(*LAYERS):
        for node in source.nodes:
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load) or node.attr in read:
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield found(source, node, f"self.{node.attr} is set and never read: remove it")


RULES = [never_read]


def test_every_attribute_is_read() -> None:
    check(never_read)
