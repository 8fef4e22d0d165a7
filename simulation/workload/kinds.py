"""Checks whether the values of a workload have the types of their annotations."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from staticfire.protocol.errors import UsageError
from staticfire.runtime.ranges import shown

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


def check_kinds(owner: str, described: Any, names: Iterable[str] | None = None) -> None:
    """Check the fields of a dataclass: all, or those in `names`. Raises: UsageError."""
    hints = _hints(type(described))  # type: ignore[arg-type]  # of functools.cache
    for name in hints if names is None else names:
        value = getattr(described, name)
        if not _fits(value, hints[name]):
            raise UsageError(f"{owner}: {name}={shown(repr(value))}; it must be {_words(hints[name])}")


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _fits(value: object, hint: Any) -> bool:
    hint = getattr(hint, "__supertype__", hint)  # A NewType doesn't exist at run time.
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or getattr(hint, "_is_protocol", False):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        is_row = isinstance(value, tuple | list) and len(value) == len(arguments)
        return is_row and all(map(_fits, value, arguments))  # type: ignore[call-overload]
    if origin in (dict, type, Callable):
        return isinstance(value, origin)
    # A sequence or another iterable. One that can be iterated only once isn't iterated here.
    if origin is not None:
        is_whole = not isinstance(value, Collection) or all(_fits(one, arguments[0]) for one in value)
        return isinstance(value, origin) and is_whole
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return isinstance(value, hint or NoneType) and not (hint is int and isinstance(value, bool))


def _words(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(one) for one in arguments)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is tuple:
        return f"({', '.join(map(_words, arguments))})"
    if origin is Callable:
        return "a function"
    if origin is type:
        return "a class"
    if origin is dict:
        return "a dictionary"
    if origin is not None:
        return f"a list, each {_words(arguments[0])}"
    return "nothing" if hint is NoneType else _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
