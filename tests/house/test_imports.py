"""Imports only go to lower layers. import-linter checks the order of the layers (pyproject.toml); this is the rest."""

import ast
import os
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.house.source import AROUND, LAYERS, ROOT, Finding, Source, check, found, sources

MACHINE = {"asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "selectors", "shutil"}
MACHINE |= {"signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "uuid"}
IO_PACKAGES = {"aiohttp", "click", "rich", "structlog"}
SPARK_PACKAGES = {"numpy", "pandas", "py4j", "pyarrow", "pyspark"}


def leads_to_the_face(name: str) -> bool:
    """Return whether this is staticfire.<x>, and <x> isn't one of the linked folders."""
    parts = name.split(".")
    return parts[0] == "staticfire" and len(parts) > 1 and parts[1] not in LAYERS


def test_nothing_below_imports_the_face() -> None:
    wrong = [
        f"{source.place(statement)} imports {name}"
        for source in sources(*LAYERS)
        for name, statement in source.imports()
        if source.folder != "staticfire" and leads_to_the_face(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_everything_is_imported_as_staticfire() -> None:
    folders = set(LAYERS) - {"staticfire"}
    wrong = [
        f"{source.place(statement)} imports {name}"
        for source in sources(*LAYERS, *AROUND)
        for name, statement in source.imports()
        if name.split(".")[0] in folders or name.startswith(".")
    ]
    assert not wrong, "\n".join(wrong)


def imports_at_runtime(source: Source) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the imports of a module, including those in functions, but not those for type checkers only."""
    for_types = {
        id(node)
        for block in source.nodes
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    return ((name, node) for name, node in source.imports() if id(node) not in for_types)


def test_no_modules_import_each_other() -> None:
    """Two modules that import each other, at whatever time, should be divided in another way."""
    modules = {source.module: source for source in sources(*LAYERS)}
    graph = {
        name: {
            target
            for full_name, _ in imports_at_runtime(source)
            for target in (full_name, full_name.rpartition(".")[0])
            if target in modules and not f"{name}.".startswith(f"{target}.")
        }
        for name, source in modules.items()
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def impure_protocol() -> Iterator[Finding]:
    for source in sources("protocol"):
        for name, statement in source.imports():
            if name.split(".")[0] in MACHINE | IO_PACKAGES:
                yield found(source, statement, f"imports {name}")


RULES = [impure_protocol]


def test_protocol_is_pure() -> None:
    check(impure_protocol)


def test_only_the_pipeline_knows_spark() -> None:
    wrong = [
        f"{source.place(statement)} imports {name}"
        for source in sources(*(folder for folder in LAYERS if folder != "pipeline"))
        for name, statement in source.imports()
        if name.split(".")[0] in SPARK_PACKAGES
    ]
    assert not wrong, "\n".join(wrong)


def test_staticfire_links_to_each_folder_of_the_house() -> None:
    links = {link.name: os.readlink(link) for link in Path(ROOT, "staticfire").iterdir() if link.is_symlink()}
    assert links == {name: f"../{name}" for name in LAYERS if name != "staticfire"}
