"""Encodes protobuf fields by hand, for the one message that an endpoint sends very often.

The protobuf library needs several times as long to set its twenty fields as to parse them from bytes.

A field is its tag (field number and encoding), then a number, or a length and that many bytes. A field with its default
value is omitted, unless the proto file declares it optional. So the bytes are the same as the library's.
"""

from functools import lru_cache

NUMBER, LENGTHY = 0, 2
"""How a field is encoded: as a number, or with its length in front."""
# The size of a cache: messages that are received together were sent at about the same time.
SECONDS_KEPT = 64
_ONE_BYTE = tuple(bytes([number]) for number in range(128))
_UINT64_MASK = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Return a number as protobuf encodes it; a negative number takes 64 bits."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    if 0 <= number < 0x4000:
        return bytes((number & 127 | 128, number >> 7))
    number &= _UINT64_MASK
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field: int, packed: int) -> bytes:
    """Return the tag of a field. `packed`: NUMBER or LENGTHY."""
    return varint(field << 3 | packed)


def lengthy(field_tag: bytes, data: bytes) -> bytes:
    """Return a field that is a text, bytes or a message."""
    size = len(data)
    return field_tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + data


def text(field_tag: bytes, value: str) -> bytes:
    """Return a text field; nothing if it is empty."""
    if not value:
        return b""
    data = value.encode("utf-8", "replace")
    size = len(data)
    return field_tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + data


def number(field_tag: bytes, value: int) -> bytes:
    """Return a field that is an integer or an enumeration; nothing if it is 0."""
    return field_tag + varint(value) if value else b""


_SECONDS, _NANOS = tag(1, NUMBER), tag(2, NUMBER)


def moment(field_tag: bytes, moment_ms: int) -> bytes:
    """Return a timestamp field; `moment_ms` is milliseconds since 1970."""
    data = _seconds(moment_ms // 1000) + _rest(moment_ms % 1000)
    return field_tag + _ONE_BYTE[len(data)] + data


@lru_cache(SECONDS_KEPT)
def _seconds(seconds: int) -> bytes:
    return number(_SECONDS, seconds)


@lru_cache(1000)
def _rest(rest_ms: int) -> bytes:
    return number(_NANOS, rest_ms * 1_000_000)
