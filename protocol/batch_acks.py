"""The entries of a batch acknowledgement: a check-point and its acknowledged messages. RocketMQ: BatchAck.

The keys are letters. The long names, which RocketMQ also accepts, are accepted, too:

    c consumerGroup | t topic | r retry | so startOffset | q queueId | rq reviveQueueId | pt popTime | it invisibleTime
    b bitSet: base64 of a little-endian bit set, bit i is queue offset so + i; a list of byte values is accepted, too

`t` is the topic that the group requested. The messages may be stored in its retry topic: `r`, the flag of
`pop_handles.py`, states in which.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.pop_handles import PopHandle

_LONG_NAMES = {
    "consumerGroup": "c", "topic": "t", "retry": "r", "startOffset": "so", "queueId": "q", "reviveQueueId": "rq",
    "popTime": "pt", "invisibleTime": "it", "bitSet": "b",
}  # fmt: skip
BIT_SET_BYTES_MAX = 4096
"""RocketMQ's clients acknowledge up to 32 messages. A check-point covers the messages of one pop."""
_Byte = Annotated[int, msgspec.Meta(ge=-128, le=255)]


class BatchAckEntry(msgspec.Struct, gc=False):
    """An entry as it is on the wire."""

    r: str | Int32
    b: str | list[_Byte]
    c: str | None = None
    t: str | None = None
    so: Int64 = 0
    q: Int32 = 0
    rq: Int32 = 0
    pt: Int64 = 0
    it: Int64 = 0


class AckedMessages(NamedTuple):
    """Acknowledged messages of one check-point. In `handle`, the queue offset equals the start offset."""

    group: str
    topic: str
    handle: PopHandle
    queue_offsets: tuple[int, ...]


def read_entry(entry: dict[str, Any], broker_name: str) -> AckedMessages:
    """Return the content of an entry. Raises: ProtocolError."""
    short = {_LONG_NAMES.get(name, name): value for name, value in entry.items()}
    try:
        read = msgspec.convert(short, BatchAckEntry, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"entry of a batch acknowledgement: {error}") from None
    if str(read.r) not in ("0", "1", "2"):
        raise ProtocolError("java.lang.IllegalArgumentException: getRetry fail, format is wrong")
    handle = PopHandle(read.so, read.pt, read.it, read.rq, int(read.r), broker_name, read.q, read.so)
    return AckedMessages(read.c or "", read.t or "", handle, _offsets(read.b, read.so))


def make_entry(group: str, topic: str, handle: PopHandle, queue_offsets: Iterable[int]) -> dict[str, Any]:
    """Return the entry for messages of one check-point, that of `handle`. Raises: ProtocolError if one isn't of it."""
    bits = 0
    for queue_offset in queue_offsets:
        if not 0 <= queue_offset - handle.start_offset < BIT_SET_BYTES_MAX * 8:
            raise ProtocolError(f"offset {queue_offset} can't belong to the check-point at {handle.start_offset}")
        bits |= 1 << (queue_offset - handle.start_offset)
    return {
        "c": group, "t": topic, "r": str(handle.flag), "so": handle.start_offset, "q": handle.queue_id,
        "rq": handle.revive_queue, "pt": handle.pop_time_ms, "it": handle.invisible_ms,
        "b": b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode(),
    }  # fmt: skip


def _offsets(bit_set: str | list[int], start_offset: int) -> tuple[int, ...]:
    """Return the queue offsets in a bit set, in ascending order. Raises: ProtocolError."""
    if isinstance(bit_set, str):
        try:
            octets = b64decode(bit_set, validate=True)
        except ValueError as error:
            raise ProtocolError(f"bit set of a batch acknowledgement: {error}") from None
    else:
        octets = bytes([number & 0xFF for number in bit_set])
    if len(octets) > BIT_SET_BYTES_MAX:
        raise ProtocolError(f"bit set of {len(octets)} bytes, the limit is {BIT_SET_BYTES_MAX}")
    bits = int.from_bytes(octets, "little")
    return tuple([start_offset + bit for bit in range(bits.bit_length()) if bits >> bit & 1])
