"""Settings of a running program, as administrators read and change them: texts under RocketMQ's names.

Values are read as Java reads them: whatever isn't `true` is false, a number stands in decimal digits. What isn't
understood, or can't change while the program runs, is left as it is and told, not refused: so does RocketMQ.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

import msgspec

from staticfire.runtime.config import field_of, key_of, text_of, what_it_takes

S = TypeVar("S")

TOLD_MAX, KEY_CHARS_MAX = 10, 100
# Somebody may send megabytes of names; an answer stays a line.
UNKNOWN = "there is no such setting"
UNREADABLE = "the value can't be read"
AT_START_ONLY = "it is read at the start only"

_NUMBER = re.compile(r"-?[0-9]{1,18}")


class Change(msgspec.Struct, Generic[S], frozen=True):
    """Settings after an update, what of it counted, and why the rest didn't."""

    settings: S
    changed: dict[str, str] = {}
    """New values by the names of fields."""
    ignored: dict[str, str] = {}
    """Reasons by the names that were given."""

    def complaint(self) -> str | None:
        """Return in words what didn't count; None when everything did."""
        told = list(self.ignored.items())[:TOLD_MAX]
        return "; ".join(f"{key[:KEY_CHARS_MAX]} is ignored: {reason}" for key, reason in told) or None


def as_properties(settings: Any) -> dict[str, str]:
    """Return all settings under the names by which people know them."""
    return {key_of(one): text_of(getattr(settings, one.name)) for one in fields(settings)}


def change_settings(settings: S, properties: Mapping[str, str], live: Collection[str] | None = None) -> Change[S]:
    """Return the settings with new values. `live`: the fields that may change; None: all."""
    values: dict[str, Any] = {}
    changed: dict[str, str] = {}
    ignored: dict[str, str] = {}
    fields_by_name = {one.name: one for one in fields(settings)}  # type: ignore[arg-type]
    for key, text in properties.items():
        name = field_of(type(settings), key)
        if name is None:
            ignored[key] = UNKNOWN
            continue
        old = getattr(settings, name)
        value = _value(text.strip(), type(old))
        choices = fields_by_name[name].metadata.get("choices")
        if value is None:
            ignored[key] = UNREADABLE
        elif choices and text_of(value) not in choices:
            ignored[key] = f"it takes {what_it_takes(type(old), fields_by_name[name])}"
        elif value != old and live is not None and name not in live:
            ignored[key] = AT_START_ONLY
        elif value != old:
            values[name] = value
            changed[name] = text_of(value)
    return Change(replace(settings, **values), changed, ignored)  # type: ignore[type-var]


def _value(text: str, kind: type) -> bool | int | str | None:
    """Return what a text means for a kind of setting, None for nothing."""
    if kind is bool:
        return text.lower() == "true"
    if kind is int:
        return int(text) if _NUMBER.fullmatch(text) else None
    return text
