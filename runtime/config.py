"""The settings of a program: one frozen dataclass per program, read once and passed down as a value.

A field has several names: camel case, as RocketMQ writes it; `field(metadata={"rocketmq": ...})`; the names in `also`;
and its own name. A number may have a unit only if the field's name contains one: `flush_ms=2s`,
`segment_bytes_max=64MiB`. Where the values come from: loading.py.
"""

import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from staticfire.runtime.ranges import TEXT_CHARS_MAX, is_within, range_words

ENVIRONMENT_PREFIX = "STATICFIRE_"
MS_OF_UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
BYTES_OF_UNIT = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "kB": 1000, "MB": 1000**2, "GB": 1000**3}
TRUE_WORDS, FALSE_WORDS = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class Unparsable(ValueError):
    """A value that its type doesn't accept. The message states what it accepts."""


class OutOfRange(Unparsable):
    """A value that can be parsed, but that no program can work with."""


def non_defaults(settings: Any) -> dict[str, str]:
    """Return the settings that differ from the defaults, in the form in which they are passed to a process."""
    given = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value != default_of(one):
            given[one.name] = text_of(value)
    return given


def without_secrets(cls: type, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings without those that the list of processes must not show, and these as environment variables."""
    secret = secret_names(cls)
    public = {name: text for name, text in given.items() if name not in secret}
    return public, {variable_of(name): text for name, text in given.items() if name in secret}


def secret_names(cls: type) -> frozenset[str]:
    """Return the fields whose values must not be shown."""
    return frozenset(one.name for one in fields(cls) if one.metadata.get("secret"))


def field_of(cls: type, key: str) -> str | None:
    """Return the name of the field that a key means, or None."""
    return _names_of(cls).get(key)


@functools.cache
def _names_of(cls: type) -> dict[str, str]:
    """Return the field for each of its names. It is cached because a request may contain thousands of names."""
    return {
        name: one.name
        for one in reversed(fields(cls))
        for name in (one.name, _camel(one.name), key_of(one), *one.metadata.get("also", ()))
    }


@functools.cache
def _hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def key_of(one: "Field[Any]") -> str:
    """Return the name of a field that users write."""
    return str(one.metadata.get("rocketmq") or _camel(one.name))


def variable_of(name: str) -> str:
    """Return the environment variable of a field, made from the field's own name."""
    return ENVIRONMENT_PREFIX + name.upper()


def parse_value(text: str, cls: type, one: "Field[Any]") -> Any:
    """Parse the text as the value of a field of a settings class. Raises: Unparsable."""
    return _parse(text, _hints_of(cls)[one.name], one)


def _parse(text: str, kind: Any, one: "Field[Any]") -> Any:
    """Parse the text as the value of a field. Raises: Unparsable."""
    choices = one.metadata.get("choices")
    if choices and text not in choices:
        raise Unparsable(what_it_takes(kind, one))
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = [part for part in get_args(kind) if part is not type(None)]
        if text == "":
            return None
    if get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {str(member.value): member for member in kind}
        if text not in members:
            raise Unparsable(what_it_takes(kind, one))
        return members[text]
    if kind is bool:
        return _parse_bool(text)
    if kind not in (int, float):
        return _parse_text(text, one)
    number = _parse_number(text, kind, one)
    if not is_within(number, one.metadata):
        raise OutOfRange(what_it_takes(kind, one))
    return number


def _parse_text(text: str, one: "Field[Any]") -> str:
    low, high = _chars_of(one)
    if not low <= len(text) <= high or any(char < " " and char != "\t" for char in text):
        raise OutOfRange(what_it_takes(str, one))
    return text


def _chars_of(one: "Field[Any]") -> tuple[int, int]:
    low, high = one.metadata.get("chars", (0, TEXT_CHARS_MAX))
    return low, high


def _parse_bool(text: str) -> bool:
    if text.lower() in TRUE_WORDS | FALSE_WORDS:
        return text.lower() in TRUE_WORDS
    raise Unparsable("true or false")


def _parse_number(text: str, kind: Any, one: "Field[Any]") -> Any:
    try:
        return kind(text.replace("_", "") if kind is int else text)
    except ValueError:
        pass
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    factor = _units_of(one.name).get(text[len(number) :].strip())
    try:
        if factor is not None:
            return kind(float(number) * factor)
    except (ValueError, OverflowError):
        pass
    raise Unparsable(what_it_takes(kind, one))


def _units_of(name: str) -> dict[str, int]:
    """Return the units that a field accepts, according to its name."""
    parts = name.split("_")
    if "ms" in parts:
        return MS_OF_UNIT
    return BYTES_OF_UNIT if "bytes" in parts else {}


def what_it_takes(kind: Any, one: "Field[Any]") -> str:
    """Describe which values a setting accepts."""
    if one.metadata.get("choices"):
        choices, why = " or ".join(one.metadata["choices"]), one.metadata.get("why")
        return f"{choices} ({why})" if why else choices
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(str(member.value) for member in kind)
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        words = ("a whole number" if kind is int else "a number") + range_words(one.metadata)
        units = list(_units_of(one.name))
        return f"{words}, or one with a unit ({', '.join(units)})" if units else words
    if get_origin(kind) is tuple:
        return "a list, separated by semicolons"
    low, high = _chars_of(one)
    return "text" if (low, high) == (0, TEXT_CHARS_MAX) else f"text of {low} to {high} characters without control ones"


def field_named(cls: type, name: str) -> "Field[Any]":
    return _fields_by_name(cls)[name]


@functools.cache
def _fields_by_name(cls: type) -> "dict[str, Field[Any]]":
    return {one.name: one for one in fields(cls)}


def default_of(one: "Field[Any]") -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ";".join(str(part) for part in value)
    return "" if value is None or value is MISSING else str(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
