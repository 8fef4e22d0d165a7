"""Settings of a running program, as administrators read and change them: texts under RocketMQ's names.

An update counts as a whole or not at all, and what is wrong with it is refused in words: a name that nobody knows, a
value that can't be read or is out of its range, a setting that is read at the start only. RocketMQ answers all of that
with a success; its tools show a refusal, and nothing of a success but that it is one.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

import msgspec

from staticfire.protocol.errors import UsageError
from staticfire.runtime.config import Unparsable, field_named, field_of, key_of, parse_value, text_of
from staticfire.runtime.ranges import shown

S = TypeVar("S")

TOLD_MAX = 10
# Somebody may send megabytes of names; an answer stays a line.
UNKNOWN = "there is no such setting"
MEANS_NOTHING = "this setting of RocketMQ means nothing here"
AT_START_ONLY = "it is read at the start only, and is"


class Change(msgspec.Struct, Generic[S], frozen=True):
    """Settings after an update, and what of it is new."""

    settings: S
    changed: dict[str, str] = {}
    """New values by the names of fields."""


def as_properties(settings: Any) -> dict[str, str]:
    """Return all settings under the names by which people know them."""
    return {key_of(one): text_of(getattr(settings, one.name)) for one in fields(settings)}


def change_settings(settings: S, properties: Mapping[str, str], live: Collection[str] | None = None) -> Change[S]:
    """Return the settings with new values. `live`: the fields that may change; None: all.

    Raises: UsageError (something is wrong with one of the values; the words name it, and what it takes).
    """
    values: dict[str, Any] = {}
    complaints: list[str] = []
    for key, text in properties.items():
        name = field_of(type(settings), key)
        if name is None:
            complaints.append(f"{shown(key)}={shown(text)}: {_why_unknown(key)}")
            continue
        try:
            value = parse_value(text.strip(), type(settings), field_named(type(settings), name))
        except Unparsable as wrong:
            complaints.append(f"{key}={shown(text)}: it takes {wrong}")
            continue
        old = values.get(name, getattr(settings, name))
        if value != old and live is not None and name not in live:
            complaints.append(f"{key}={shown(text)}: {AT_START_ONLY} {shown(text_of(old))}")
        elif value != old:
            values[name] = value
    if complaints:
        raise UsageError(f"nothing is changed; {_words(complaints)}")
    return Change(replace(settings, **values), {name: text_of(value) for name, value in values.items()})  # type: ignore[type-var]


def _why_unknown(key: str) -> str:
    from staticfire.runtime.rocketmq_settings import ROCKETMQ_SETTINGS  # here, since few servers are asked for that

    return MEANS_NOTHING if key in ROCKETMQ_SETTINGS else UNKNOWN


def _words(complaints: list[str]) -> str:
    told = "; ".join(complaints[:TOLD_MAX])
    more = len(complaints) - TOLD_MAX
    return f"{told}; and {more} more" if more > 0 else told
