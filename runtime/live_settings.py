"""The settings of a running program, as administrators read and change them: texts under RocketMQ's names.

An update is applied as a whole or not at all. A wrong update is refused, and the response describes the problem: an
unknown name, a value that can't be parsed or is out of its range, a setting that is read only at the start. RocketMQ
answers all of these with success. Its tools show the text of a refusal; for a success, they show only that it is one.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

import msgspec

from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import Unparsable, field_named, field_of, key_of, parse_value, text_of
from staticfire.runtime.ranges import hidden, shown

S = TypeVar("S")

# A request may contain megabytes of names, but the response must be one line.
SHOWN_MAX = 10
UNKNOWN = "there is no such setting"
MEANS_NOTHING = "this setting of RocketMQ has no effect here"
AT_START_ONLY = "it is read only at the start, and is"


class Change(msgspec.Struct, Generic[S], frozen=True):
    """The settings after an update, and what it changed."""

    settings: S
    changed: dict[str, str] = {}
    """The new values, by the names of fields."""


def as_properties(settings: Any) -> dict[str, str]:
    """Return all settings under the names that users write."""
    return {key_of(one): hidden(one, text_of(getattr(settings, one.name))) for one in fields(settings)}


def change_settings(settings: S, properties: Mapping[str, str], live: Collection[str] | None = None) -> Change[S]:
    """Return the settings with new values. `live`: the fields that may change; None: all.

    Raises: UsageError (at least one value is wrong; the message names it, and what the setting accepts).
    """
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for key, text in properties.items():
        name = field_of(type(settings), key)
        if name is None:
            complaints.append(f"{shown(key)}={shown(text)}: {_why_unknown(key)}")
            continue
        try:
            field = field_named(type(settings), name)
            if field.metadata.get("secret"):
                if text != hidden(field, text_of(getattr(settings, name))):
                    complaints.append(f"{key}: it is a secret, and is read only at the start")
                continue
            value = parse_value(text.strip(), type(settings), field)
        except Unparsable as wrong:
            complaints.append(f"{key}={shown(text)}: it must be {wrong}")
            continue
        old = values.get(name, getattr(settings, name))
        if value != old and live is not None and name not in live:
            complaints.append(f"{key}={shown(text)}: {AT_START_ONLY} {shown(text_of(old))}")
        elif value != old:
            values[name] = value
    if complaints:
        raise UsageError(f"nothing was changed; {_words(complaints)}")
    return Change(replace(settings, **values), {name: text_of(value) for name, value in values.items()})  # type: ignore[type-var]


def _why_unknown(key: str) -> str:
    # Imported here because few servers need it.
    from staticfire.runtime.rocketmq_settings import ROCKETMQ_SETTINGS

    return MEANS_NOTHING if key in ROCKETMQ_SETTINGS else UNKNOWN


def _words(complaints: list[str]) -> str:
    lines = "; ".join(complaints[:SHOWN_MAX])
    more = len(complaints) - SHOWN_MAX
    return f"{lines}; and {more} more" if more > 0 else lines
