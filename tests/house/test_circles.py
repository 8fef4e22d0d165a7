"""No module imports another one that imports it, not even over others or inside of a function.

Whoever reads one module of a circle has to read all of them. Imports that only type checkers see are left out.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.house.source import LAYERS, Source, sources


def imports_at_run_time(node: ast.AST) -> Iterator[str]:
    """Yield the full names of what is imported below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from imports_at_run_time(child)


def circle_in(modules: list[Source]) -> list[str]:
    """Return the names of modules that import each other, first and last the same; nothing if there is no circle."""
    names = {source.module for source in modules}
    graph = {
        source.module: {name for name in imports_at_run_time(source.tree) if name in names} - {source.module}
        for source in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_no_modules_import_each_other() -> None:
    assert circle_in(sources(*LAYERS)) == []
