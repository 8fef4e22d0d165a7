"""The writer of fastjson's dialect. RocketMQ: RemotingSerializable, fastjson 1.2.83.

The text is compact. Struct fields are in alphabetical order. None is left out of objects and kept in arrays. Enums are
written by name, integer keys without quotes, objects as keys in the key's place. So the text isn't standard JSON if an
integer or an object is a key.
"""

import math
from collections.abc import Callable
from enum import Enum
from functools import cache
from json.encoder import encode_basestring as quoted
from operator import attrgetter
from typing import Any

import msgspec

from staticfire.protocol.fastjson_reader import ObjectKey

_LEAVES: dict[type, Callable[[Any], str]] = {
    str: quoted,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
    float: lambda value: float.__repr__(value) if math.isfinite(value) else "null",
}

_PLAIN: tuple[type[Any], ...] = (str, int, float, dict, list, tuple)


def encode(value: Any, quote_number_keys: bool = False) -> bytes:
    """Return `value` as fastjson writes it. With `quote_number_keys`, integer keys are quoted, as in standard JSON.

    Accepts None, bool, int, float, str, list, tuple, set, dict, Enum, msgspec.Struct and `ObjectKey`; keys may be str,
    int, bool, Enum, Struct and `ObjectKey`. NaN and infinity become null; an unpaired surrogate becomes "?", as in
    Java.

    Raises: TypeError for anything else.
    """
    return _text(value, quote_number_keys).encode("utf-8", "replace")


def _text(value: Any, quote: bool) -> str:
    kind = type(value)
    if leaf := _LEAVES.get(kind):
        return leaf(value)
    if kind is dict:
        members = [f"{_key(key, quote)}:{_text(item, quote)}" for key, item in value.items() if item is not None]
        return "{" + ",".join(members) + "}"
    if kind is list or kind is tuple:
        return "[" + ",".join([_text(item, quote) for item in value]) + "]"
    return _other_text(value, quote)


def _other_text(value: Any, quote: bool) -> str:
    if isinstance(value, msgspec.Struct):
        members = [
            f"{name}:{_text(item, quote)}"
            for name, item_of in _fields(type(value))
            if (item := item_of(value)) is not None and item is not msgspec.UNSET
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, Enum):
        return quoted(value.name)
    if isinstance(value, set | frozenset):
        return "[" + ",".join(_in_order(value, quote)) + "]"
    if isinstance(value, ObjectKey):
        return _text(dict(value), quote)
    for base in _PLAIN:
        if isinstance(value, base):
            return _text(base(value), quote)
    raise TypeError(f"fastjson can't write a {type(value).__name__}; use plain values, Structs or enums")


def _key(key: Any, quote: bool) -> str:
    if isinstance(key, str | Enum | msgspec.Struct | ObjectKey):
        return _text(key, quote)
    if isinstance(key, int):
        return f'"{_text(key, quote)}"' if quote else _text(key, quote)
    raise TypeError(
        f"fastjson can't write a {type(key).__name__} as a key; use a str, an int, an enum or a frozen Struct"
    )


def _in_order(items: set[Any] | frozenset[Any], quote: bool) -> list[str]:
    """Return the texts of `items` in an order that is the same in each run."""
    try:
        return [_text(item, quote) for item in sorted(items)]
    # The members can't be compared, so they are sorted by their texts.
    except TypeError:
        return sorted(_text(item, quote) for item in items)


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the quoted name and the getter of each field of `kind`, alphabetically."""
    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return [(quoted(name), attrgetter(field)) for name, field in sorted(names)]
