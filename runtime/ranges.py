"""The range of a setting, declared next to its default: `field(default=10911, metadata=PORT)`.

Without a range, any number would be accepted, and the problem would show much later: a negative period, a segment of
ten bytes. Settings that are read from text are checked by `config.parse_value`; settings that a program creates itself,
by `check_ranges`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar, dataclass_transform

from staticfire.protocol.errors import UsageError
from staticfire.protocol.limits import INT32_MAX as INT32_MAX, INT64_MAX as INT64_MAX  # for settings classes, too

T = TypeVar("T")

# The limit for a setting that is a text without a limit of its own, such as a path or a list of nameservers.
TEXT_CHARS_MAX = 4_096
# How much of a wrong value or of an unknown name an error message shows, so that the message is one line.
SHOWN_CHARS_MAX = 100
HIDDEN = "******"
"""What is shown instead of a secret. A setting with one has `metadata={"secret": True}`."""


class SettingsValue:
    """Base of settings classes, with the methods that a dataclass would generate as source text and compile. For a
    hundred fields this takes five milliseconds of each start.
    """

    __slots__ = ()

    def __init__(self, **values: Any) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            value = values.pop(one.name, one.default)
            if value is MISSING:
                raise TypeError(f"{type(self).__name__} needs a value for {one.name}")
            object.__setattr__(self, one.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _settings_of, (type(self), self._values())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().items()))

    def __repr__(self) -> str:
        shown_values = {each.name: hidden(each, repr(getattr(self, each.name))) for each in fields(self)}  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown_values.items())})"

    def _values(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]


def _settings_of(cls: type[T], values: dict[str, Any]) -> T:
    """Return a settings object that was copied or pickled."""
    return cls(**values)


@dataclass_transform(eq_default=False, kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def settings_class(cls: type[T]) -> type[T]:
    """Make a subclass of `SettingsValue` a dataclass whose fields are keyword arguments; it can't be changed."""
    return dataclass(init=False, slots=True, kw_only=True, eq=False, repr=False)(cls)


def hidden(one: "Field[Any]", text: str) -> str:
    """Return a setting's text as others may see it: stars for a password, however long it is."""
    return HIDDEN if one.metadata.get("secret") and text not in ("", "''") else text


def within(low: float, high: float, **more: Any) -> dict[str, Any]:
    """Return the metadata of a setting with a number in this range, both ends included."""
    return {"range": (low, high), **more}


def chars(low: int, high: int, **more: Any) -> dict[str, Any]:
    """Return the metadata of a setting whose text has this many characters."""
    return {"chars": (low, high), **more}


PORT = within(0, 65_535)
PERCENT = within(0, 100)
# Milliseconds that fit into Java's int: up to 24 days.
PERIOD = within(1, INT32_MAX)
PERIOD_OR_NONE = within(0, INT32_MAX)


def range_words(metadata: Mapping[str, Any]) -> str:
    """Return ` from 0 to 65535`, with a leading blank; empty if there is no range."""
    limits = metadata.get("range")
    return f" from {limits[0]} to {limits[1]}" if limits else ""


def is_within(value: float, metadata: Mapping[str, Any]) -> bool:
    """Return whether a number is in the range of its setting. True if the setting has no range."""
    limits = metadata.get("range")
    return limits is None or limits[0] <= value <= limits[1]


def shown(text: str) -> str:
    """Return a text as an error message shows it: one short line, whatever the text is."""
    line = "".join(char if char.isprintable() else "?" for char in text[: SHOWN_CHARS_MAX + 1])
    return line if len(line) <= SHOWN_CHARS_MAX else f"{line[:SHOWN_CHARS_MAX]}..."


def check_ranges(settings: Any) -> None:
    """Check the numbers and the enums of a settings object that a program created. Raises: UsageError."""
    for one in fields(settings):
        if "range" in one.metadata:
            _check(one, getattr(settings, one.name))
        elif isinstance(one.default, Enum):
            _check_enum(one.name, getattr(settings, one.name), type(one.default))


def _check_enum(name: str, value: Any, kind: type[Enum]) -> None:
    if not isinstance(value, kind):
        known = ", ".join(str(member) for member in kind)
        raise UsageError(f"{name}={shown(repr(value))}: it must be one of {known}")


def _check(one: "Field[Any]", value: Any) -> None:
    if value is None and one.default is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{one.name}={shown(str(value))}: it must be a number{range_words(one.metadata)}")
    if not is_within(value, one.metadata):
        low, high = one.metadata["range"]
        raise UsageError(f"{one.name}={value} is out of range: {low} to {high} are allowed")
