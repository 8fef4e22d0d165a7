"""What the log says of POP: events, in the order in which they happened. Pure.

A record of the revive topic has, as its body, the msgpack of [low_water, [event, ...]]. Below queue offset `low_water`
no record is needed any more to know what is in flight (kept.py). Sets of messages are sets of bits, little-endian, from
the check-point's start offset on.
"""

import msgspec

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.numbers import Int32, Int64

NO_OFFSET = -1


class GroupQueue(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A queue, as one group has it. `topic`: where the messages really lie."""

    group: str
    topic: str
    queue_id: Int32


class Taken(msgspec.Struct, array_like=True, gc=False, tag=0):
    """A check-point as it is now: made, or told again."""

    place: GroupQueue
    start: Int64
    pop_ms: Int64
    due_ms: Int64
    bits: bytes
    committed: Int64 = NO_OFFSET
    """Where the group stands by it; NO_OFFSET: where it stood."""


class Done(msgspec.Struct, array_like=True, gc=False, tag=1):
    """Messages of a check-point that are done with: acknowledged, returned, in another check-point."""

    place: GroupQueue
    start: Int64
    pop_ms: Int64
    bits: bytes


class OrderState(msgspec.Struct, array_like=True, gc=False):
    """What a group has taken of a queue in order. RocketMQ: ConsumerOrderInfoManager.OrderInfo."""

    pop_ms: Int64
    invisible_ms: Int64
    attempt_id: str | None
    offsets: list[Int64]
    acked: list[Int64] = []
    """Those of them that are acknowledged."""
    visible_ms: dict[Int64, Int64] = {}
    """When one may be taken again, where that isn't popTime + invisibleTime."""
    counts: dict[Int64, Int32] = {}
    """How often one was taken before, where it was."""
    used_ms: Int64 = 0
    """When somebody last had to do with it."""


class Ordered(msgspec.Struct, array_like=True, gc=False, tag=2):
    """A queue's order state as it is now; None: there is none any more."""

    place: GroupQueue
    state: OrderState | None
    committed: Int64 = NO_OFFSET


Event = Taken | Done | Ordered


class PopRecord(msgspec.Struct, array_like=True, gc=False):
    """The body of a record."""

    low_water: Int64
    events: list[Event]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PopRecord)
encode_event = _encoder.encode
"""An event's bytes, to be joined by `join_events`."""


def join_events(low_water: int, events: list[bytes]) -> bytes:
    """Return the body of a record."""
    return b"".join((b"\x92", _encoder.encode(low_water), b"\xdd", len(events).to_bytes(4, "big"), *events))


def read_events(body: bytes) -> PopRecord:
    """Return what a record says. Raises: ProtocolError."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"no events of POP: {error}") from error


def pack_bits(mask: int) -> bytes:
    """Return a set of messages as it is kept."""
    return mask.to_bytes((mask.bit_length() + 7) >> 3, "little")


def unpack_bits(bits: bytes) -> int:
    """Return a set of messages as a number."""
    return int.from_bytes(bits, "little")
