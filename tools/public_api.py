"""Write docs/public-api.txt: the names and signatures that programs may rely on. tests/house/test_surface.py holds it.

    python -m tools.public_api

A change of the file is a change of the public API. A removed line, or a new parameter without a default, needs a new
major version.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import msgspec

FILE = Path(__file__).resolve().parent.parent / "docs" / "public-api.txt"
PACKAGES = ("staticfire", "staticfire.testing")
HEADER = """\
# The public API: what is in `staticfire` and `staticfire.testing`, with all public methods, properties and fields.
# `python -m tools.public_api` writes this file.
"""
# Dunder methods that are part of how an object is used.
CALLED_BY_SYNTAX = ("__aenter__", "__aexit__", "__call__", "__enter__", "__exit__", "__iter__", "__len__")
# Methods that the classes call themselves; they have no underscore, since other modules call them, too.
INTERNAL = ("enter", "entered_as", "in_loop", "leave", "pause_for", "shared_thread", "spawn")
# Forms of types and defaults that say where an object is, or that differ between versions of Python.
REWRITTEN = (
    (r"<(?:function )?([\w.]+)(?: object)? at 0x[0-9a-f]+>", r"<\1>"),
    (r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_]\w*)", ""),
    (r"Annotated\[(\w+), Meta\([^)]*\)\]", r"\1"),
    (r"Optional\[([\w.]+)\]", r"\1 | None"),
)


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    yield from HEADER.splitlines()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            yield ""
            yield from _described(f"{package}.{name}", getattr(module, name))


def _described(name: str, value: object) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if inspect.isfunction(value) else f"{name}: {_type_name(value)}"
    elif issubclass(value, Enum):
        yield f"enum {name}"
        yield from (f"    {member.name} = {member.value!r}" for member in value)
    elif issubclass(value, BaseException):
        yield f"exception {name}({', '.join(base.__name__ for base in value.__bases__)})"
        yield from _members(value)
    else:
        yield f"class {name}{_signature(value)}"
        yield from _members(value)


def _type_name(value: object) -> str:
    return type(value).__name__ if type(value).__module__.startswith("staticfire") else str(value)


def _members(value: type) -> Iterator[str]:
    """Yield the public members of a class and of its bases in staticfire, sorted by name."""
    found: dict[str, str] = dict(_fields(value))
    for base in reversed([one for one in value.__mro__ if one.__module__.startswith("staticfire")]):
        for name, member in vars(base).items():
            if name in INTERNAL or (name.startswith("_") and name not in CALLED_BY_SYNTAX):
                continue
            described = _member(name, member)
            if described:
                found[name] = described
    yield from (f"    {found[name]}" for name in sorted(found))


def _fields(value: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass or a struct; their types and defaults are in the signature."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif issubclass(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    else:
        names = []
    yield from ((name, name) for name in names if not name.startswith("_"))


def _member(name: str, member: object) -> str:
    if isinstance(member, staticmethod | classmethod):
        return f"{type(member).__name__} {name}{_signature(member.__func__)}"
    if inspect.iscoroutinefunction(member):
        return f"async {name}{_signature(member)}"
    if inspect.isfunction(member):
        return f"{name}{_signature(member)}"
    if isinstance(member, property):
        return f"property {name}"
    return ""


def _signature(value: object) -> str:
    """Return parameters, defaults and types. Addresses of objects and modules of types are left out."""
    assert callable(value)
    try:
        text = str(inspect.signature(value))
    except ValueError:  # A class without a constructor of its own, such as a protocol.
        return ""
    for form, other in REWRITTEN:
        text = re.sub(form, other, text)
    return text


def main() -> None:
    """Write the file."""
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
