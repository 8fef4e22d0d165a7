"""JSON as Apache RocketMQ writes and reads it in headers, bodies and files: the dialect of fastjson 1.2.83.

`encode` writes it; `decode` reads it into plain values, `decode_as` into a msgspec type. Nearly all JSON is standard
and is decoded by msgspec in C. Only what msgspec refuses goes to the lenient reader. Invariant: bytes that can't be
read raise `ProtocolError` and nothing else. The time is bounded: in C by the frame's size, in the lenient reader by
`steps_max`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.fastjson_reader import DEPTH_MAX, UNLIMITED, ObjectKey, read_lenient
from staticfire.protocol.fastjson_shape import Shaper, ShaperBuilder
from staticfire.protocol.fastjson_writer import encode
from staticfire.protocol.limits import LENIENT_STEPS_MAX

__all__ = ["DEPTH_MAX", "UNLIMITED", "ObjectKey", "decode", "decode_as", "encode"]

T = TypeVar("T")

_decode_standard = msgspec.json.Decoder().decode
_REFUSALS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode(data: bytes, steps_max: int = LENIENT_STEPS_MAX) -> Any:
    """Return the plain value of `data`; keys are `str`, but bare integers are `int` and objects are `ObjectKey`.

    Raises: ProtocolError with the position and what was expected there.
    """
    try:
        value = _decode_standard(data)
    except _REFUSALS:
        return read_lenient(data, steps_max)
    if _may_be_too_deep(data) and _is_too_deep(value):
        raise ProtocolError(f"JSON of {len(data)} bytes: expected no more than {DEPTH_MAX} levels")
    return value


def decode_as(data: bytes, type: type[T], steps_max: int = LENIENT_STEPS_MAX) -> T:
    """Return `data` as a `type`, with fastjson's lenient conversions.

    Text is accepted for a number or boolean and vice versa. null counts as absent for a field that can't be null.
    Unknown fields are ignored. `type` is object-like (no `array_like`); dicts may have int or frozen Struct keys.
    `steps_max`: the limit for text that isn't standard JSON, see `read_lenient`; UNLIMITED for our own files.

    Raises: ProtocolError with the position, or the path and the name of the field.
    """
    plan = _PLANS.get(type) or _plan(type)
    try:
        if not (plan.open_ended and _may_be_too_deep(data)):
            return plan.decode(data)  # type: ignore[no-any-return]  # the plan is the one of T
    except _REFUSALS:
        # `decode` can read it, or gives a better error.
        pass
    try:
        return msgspec.convert(plan.shape(decode(data, steps_max)), type, strict=False)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"JSON of a {getattr(type, '__name__', type)}: {error}") from error


class _Plan(NamedTuple):
    """How one type is decoded: directly, or by shaping the result of the lenient reader."""

    decode: Callable[[bytes], Any]
    shape: Shaper
    open_ended: bool


_PLANS: dict[Any, _Plan] = {}


def _plan(kind: Any) -> _Plan:
    builder = ShaperBuilder()
    shape = builder.shaper(msgspec.inspect.type_info(kind))
    _PLANS[kind] = _Plan(msgspec.json.Decoder(kind, strict=False).decode, shape, builder.open_ended)
    return _PLANS[kind]


def _may_be_too_deep(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") > DEPTH_MAX


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        lists = [item for outer in level if isinstance(outer, list) for item in outer]
        values = [item for outer in level if isinstance(outer, dict) for item in outer.values()]
        level = [item for item in lists + values if isinstance(item, list | dict)]
        if not level:
            return False
    return True
