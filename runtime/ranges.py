"""How far a setting may go, said beside its default: `field(default=10911, metadata=PORT)`.

A number without a range is taken whatever it is, and shows much later: a period below zero, a segment of ten bytes.
Settings that are read from texts are checked by `config.parse_value`, those that a program makes itself by
`check_ranges`.
"""

from collections.abc import Mapping
from dataclasses import Field, fields
from enum import Enum
from typing import Any

from staticfire.protocol.errors import UsageError

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
TEXT_CHARS_MAX = 4_096
# Of a setting that is a text and says nothing else: paths, and lists of nameservers.
SHOWN_CHARS_MAX = 100
# Of a wrong value, or of a name that nobody knows: what is said about it stays a line.


class SettingsValue:
    """What makes two dataclasses of settings equal, and how they are shown. Generated for a hundred fields, that takes
    two milliseconds of a start.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def _values(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]


def within(low: float, high: float, **more: Any) -> dict[str, Any]:
    """Return the metadata of a setting whose number lies there, both ends included."""
    return {"range": (low, high), **more}


def chars(low: int, high: int, **more: Any) -> dict[str, Any]:
    """Return the metadata of a setting whose text has so many characters."""
    return {"chars": (low, high), **more}


PORT = within(0, 65_535)
PERCENT = within(0, 100)
PERIOD = within(1, INT32_MAX)
PERIOD_OR_NONE = within(0, INT32_MAX)
# Milliseconds, as Java's int holds them: 24 days.


def range_words(metadata: Mapping[str, Any]) -> str:
    """Return ` from 0 to 65535`, with a blank in front; nothing where there is no range."""
    limits = metadata.get("range")
    return f" from {limits[0]} to {limits[1]}" if limits else ""


def is_within(value: float, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a number lies in the range of its setting, if that has one."""
    limits = metadata.get("range")
    return limits is None or limits[0] <= value <= limits[1]


def shown(text: str) -> str:
    """Return a text as an error shows it: one short line, whatever somebody wrote."""
    line = "".join(char if char.isprintable() else "?" for char in text[: SHOWN_CHARS_MAX + 1])
    return line if len(line) <= SHOWN_CHARS_MAX else f"{line[:SHOWN_CHARS_MAX]}..."


def check_ranges(settings: Any) -> None:
    """Check the numbers of a settings object that a program has made, and its enums. Raises: UsageError."""
    for one in fields(settings):
        if "range" in one.metadata:
            _check(one, getattr(settings, one.name))
        elif isinstance(one.default, Enum):
            _check_enum(one.name, getattr(settings, one.name), type(one.default))


def _check_enum(name: str, value: Any, kind: type[Enum]) -> None:
    if not isinstance(value, kind):
        known = ", ".join(str(member) for member in kind)
        raise UsageError(f"{name}={shown(repr(value))}: it takes one of {known}")


def _check(one: "Field[Any]", value: Any) -> None:
    if value is None and one.default is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{one.name}={shown(str(value))}: it takes a number{range_words(one.metadata)}")
    if not is_within(value, one.metadata):
        low, high = one.metadata["range"]
        raise UsageError(f"{one.name}={value} is out of range: {low} to {high} are allowed")
