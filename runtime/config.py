"""Settings of a program: one frozen dataclass each, read once and passed down as a value.

Precedence: flag > environment (STATICFIRE_<NAME>) > file > default, in `load_settings` and nowhere else. A file is
TOML, or RocketMQ's `key=value` lines when its name doesn't end in .toml. A field goes by its name in camel case, as
RocketMQ writes it, by what `field(metadata={"rocketmq": ...})` says, by the names that `also` lists, and by its
own. A number takes a unit only
where the field's name says of what: `flush_ms=2s`, `segment_bytes_max=64MiB`.

Anything that isn't understood is an error that names the way out: a setting that is silently ignored costs an
afternoon. Of the environment a program takes its own settings only: those that nobody knows are found by who knows
all programs (`staticfire/launch/environment.py`).
"""

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from staticfire.protocol.errors import UsageError
from staticfire.runtime.ranges import TEXT_CHARS_MAX, is_within, range_words, shown

S = TypeVar("S")

TOML = ".toml"
ENVIRONMENT, ENVIRONMENT_PREFIX = "the environment", "STATICFIRE_"
MS_OF_UNIT = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
BYTES_OF_UNIT = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "kB": 1000, "MB": 1000**2, "GB": 1000**3}
TRUE_WORDS, FALSE_WORDS = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class Unparsable(ValueError):
    """A value that its type doesn't take; the words say what it takes."""


class OutOfRange(Unparsable):
    """A value that can be read, and that no program can work with."""


def load_settings(
    cls: type[S],
    overrides: Mapping[str, str],
    environment: Mapping[str, str],
    file: str | None,
    others: tuple[type, ...] = (),
    tell: Callable[[str], None] | None = None,
    defaults: Mapping[str, str] | None = None,
    source: str = "--set",
) -> S:
    """Return the settings. `others`: programs whose settings may stand in the same flags and file.

    `defaults`: values for what nobody sets, where they aren't those of the class.

    `tell`: hears what isn't understood in a file that isn't TOML, so probably RocketMQ's; without it that is an error.
    `source`: how a person gives the overrides.
    Raises: UsageError (unknown key, bad value, unreadable file), in words for a person.
    """
    values: dict[str, Any] = {}
    sources = [(file or "", _read_file(file))] if file else []
    if file and tell is not None and not file.endswith(TOML):
        from staticfire.runtime.foreign_conf import understood  # here, since most starts read no file

        sources = [(file, understood(sources[0][1], file, (cls, *others), tell))]
    for place, given in [
        ("defaults", defaults or {}),
        *sources,
        (ENVIRONMENT, _from_environment(cls, environment)),
        (source, overrides),
    ]:
        for key, text in given.items():
            name = field_of(cls, key)
            if name is None:
                if not any(field_of(other, key) for other in others):
                    raise UsageError(_unknown(key, place, (cls, *others)))
                continue
            try:
                values[name] = parse_value(text, cls, field_named(cls, name))
            except Unparsable as wrong:
                given_as = variable_of(key) if place == ENVIRONMENT else key
                words = f"{given_as}={shown(text)} ({place}) is no value for this setting: it takes {wrong}"
                raise UsageError(words) from None
    return cls(**values)


def non_defaults(settings: Any) -> dict[str, str]:
    """Return what differs from the defaults, as `load_settings` reads it: how settings travel to a process."""
    given = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if value != default_of(one):
            given[one.name] = text_of(value)
    return given


def field_of(cls: type, key: str) -> str | None:
    """Return which field a key means, if any."""
    return _names_of(cls).get(key)


@functools.cache
def _names_of(cls: type) -> dict[str, str]:
    """Return the fields by all their names: somebody may ask for thousands."""
    return {
        name: one.name
        for one in reversed(fields(cls))
        for name in (one.name, _camel(one.name), key_of(one), *one.metadata.get("also", ()))
    }


@functools.cache
def _hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def key_of(one: "Field[Any]") -> str:
    """Return the name by which people know a field."""
    return str(one.metadata.get("rocketmq") or _camel(one.name))


def variable_of(name: str) -> str:
    """Return the environment's variable for a field, by the field's own name."""
    return ENVIRONMENT_PREFIX + name.upper()


def _from_environment(cls: type, environment: Mapping[str, str]) -> dict[str, str]:
    names = {one.name: variable_of(one.name) for one in fields(cls)}
    return {name: environment[variable] for name, variable in names.items() if variable in environment}


def _read_file(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            text = file.read().decode(errors="strict" if path.endswith(TOML) else "replace")
            # What isn't UTF-8 in a broker.conf is somebody's comment.
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
    return _toml_values(path, text) if path.endswith(TOML) else _line_values(path, text)


def _toml_values(path: str, text: str) -> dict[str, str]:
    import tomllib  # here, since most starts read no file

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    nested = [key for key, value in table.items() if isinstance(value, dict)]
    if nested:
        raise UsageError(f"{path}: [{nested[0]}] is a table; settings stand at the top level, as key = value")
    return {key: text_of(tuple(value) if isinstance(value, list) else value) for key, value in table.items()}


def _line_values(path: str, text: str) -> dict[str, str]:
    """Read RocketMQ's broker.conf, a Java properties file. Raises: UsageError for a key without a value."""
    from staticfire.protocol.java_properties import read_properties  # here, since most starts read no file

    values = read_properties(text)
    for number, line in enumerate(text.splitlines(), 1):
        if values.get(line.strip()) == "":
            raise UsageError(f"{path}, line {number}: {line.strip()!r} is no key=value")
    return {key: value.strip() for key, value in values.items()}


def _unknown(key: str, source: str, classes: tuple[type, ...]) -> str:
    import difflib  # here, since most starts need no help

    known = {key_of(one).lower(): key_of(one) for cls in classes for one in fields(cls)}
    alike = difflib.get_close_matches(shown(key).replace("_", "").lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {known[alike[0]]}?" if alike else "`staticfire broker --settings` lists all"
    return f"unknown setting {shown(key)} ({source}): {hint}"


def parse_value(text: str, cls: type, one: "Field[Any]") -> Any:
    """Return the value that the text means for a field of a settings class. Raises: Unparsable."""
    return _parse(text, _hints_of(cls)[one.name], one)


def _parse(text: str, kind: Any, one: "Field[Any]") -> Any:
    """Return the value that the text means for a field. Raises: Unparsable."""
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
    """Return the units that a field takes: its name says of what it is a number."""
    parts = name.split("_")
    if "ms" in parts:
        return MS_OF_UNIT
    return BYTES_OF_UNIT if "bytes" in parts else {}


def what_it_takes(kind: Any, one: "Field[Any]") -> str:
    """Say in words what a setting takes."""
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
    return "text" if (low, high) == (0, TEXT_CHARS_MAX) else f"text of {low} to {high} characters, none of control"


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
