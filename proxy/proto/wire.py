"""Fields of protobuf messages packed by hand, for the one message of which an endpoint makes many a second.

To set its twenty fields takes the library several times as long as to read them from bytes.

A field is its tag (its number and how it is packed), then a number, or a length and so many bytes. Fields that have
their default are left out, unless the proto file calls them optional: so the bytes are those that the library writes.
"""

from functools import lru_cache

NUMBER, LENGTHY = 0, 2
"""How a field is packed."""
SECONDS_KEPT = 64
# Messages that come together were sent about the same time.
_ONE_BYTE = tuple(bytes([number]) for number in range(128))
_UINT64_MASK = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it; negative ones as 64 bits."""
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
    """Return what a field begins with. `packed`: NUMBER or LENGTHY."""
    return varint(field << 3 | packed)


def lengthy(field_tag: bytes, data: bytes) -> bytes:
    """Return a field that is a text, bytes or a message."""
    size = len(data)
    return field_tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + data


def text(field_tag: bytes, value: str) -> bytes:
    """Return a text field, nothing where it is empty."""
    if not value:
        return b""
    data = value.encode("utf-8", "replace")
    size = len(data)
    return field_tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + data


def number(field_tag: bytes, value: int) -> bytes:
    """Return a field that is a whole number or one of an enumeration, nothing where it is 0."""
    return field_tag + varint(value) if value else b""


_SECONDS, _NANOS = tag(1, NUMBER), tag(2, NUMBER)


def moment(field_tag: bytes, moment_ms: int) -> bytes:
    """Return a timestamp of so many milliseconds since 1970."""
    data = _seconds(moment_ms // 1000) + _rest(moment_ms % 1000)
    return field_tag + _ONE_BYTE[len(data)] + data


@lru_cache(SECONDS_KEPT)
def _seconds(seconds: int) -> bytes:
    return number(_SECONDS, seconds)


@lru_cache(1000)
def _rest(rest_ms: int) -> bytes:
    return number(_NANOS, rest_ms * 1_000_000)
