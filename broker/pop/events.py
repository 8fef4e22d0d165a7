"""The events of POP in the log, in the order in which they happened. Pure.

The body of a record in the revive topic is the msgpack of [low_water, [event, ...]]. Records below the queue offset
`low_water` are not needed any more to restore what is in flight (recovery.py). Sets of messages are sets of bits,
little-endian, counted from the check-point's start offset.

A record contains events of several groups. So an event that can't be decoded is left out, and the others are read.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.numbers import Int32, Int64

NO_OFFSET = -1


class GroupQueue(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A queue for one group. `topic`: where the messages are really stored."""

    group: str
    topic: str
    queue_id: Int32


class Taken(msgspec.Struct, array_like=True, gc=False, tag=0):
    """The current state of a check-point, when it is made or written again."""

    place: GroupQueue
    start: Int64
    pop_ms: Int64
    due_ms: Int64
    bits: bytes
    committed: Int64 = NO_OFFSET
    """The group's new offset; NO_OFFSET if it doesn't change."""


class Done(msgspec.Struct, array_like=True, gc=False, tag=1):
    """Messages of a check-point that are done: acknowledged, returned, or moved to another check-point."""

    place: GroupQueue
    start: Int64
    pop_ms: Int64
    bits: bytes


class OrderState(msgspec.Struct, array_like=True, gc=False):
    """The messages of a queue that a group has popped in order. RocketMQ: ConsumerOrderInfoManager.OrderInfo."""

    pop_ms: Int64
    invisible_ms: Int64
    attempt_id: str | None
    offsets: list[Int64]
    acked: list[Int64] = []
    """The offsets that are acknowledged."""
    visible_ms: dict[Int64, Int64] = {}
    """When a message may be popped again, if that isn't popTime + invisibleTime."""
    counts: dict[Int64, Int32] = {}
    """How often a message was popped before; 0 is left out."""
    used_ms: Int64 = 0
    """When the state was last used."""


class Ordered(msgspec.Struct, array_like=True, gc=False, tag=2):
    """The current order state of a queue; None if there is none any more."""

    place: GroupQueue
    state: OrderState | None
    committed: Int64 = NO_OFFSET


Event = Taken | Done | Ordered


class PopRecord(NamedTuple):
    """The content of a record."""

    low_water: int
    events: list[Event]
    errors: list[str]
    """Why events are missing in `events`: one reason for each."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Int64, list[Event]])
_single_decoder = msgspec.msgpack.Decoder(tuple[Int64, list[msgspec.Raw]])
_event_decoder = msgspec.msgpack.Decoder(Event)
encode_event = _encoder.encode
"""Encodes an event for `join_events`."""


def join_events(low_water: int, events: list[bytes]) -> bytes:
    """Return the body of a record."""
    return b"".join((b"\x92", _encoder.encode(low_water), b"\xdd", len(events).to_bytes(4, "big"), *events))


def read_events(body: bytes) -> PopRecord:
    """Decode the body of a record. Raises: ProtocolError (it isn't a list of events)."""
    try:
        low_water, events = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return _read_one_by_one(body)
    return PopRecord(low_water, events, [])


def _read_one_by_one(body: bytes) -> PopRecord:
    """Decode the events that can be decoded. Raises: ProtocolError."""
    try:
        low_water, encoded = _single_decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(f"these are not POP events: {error}") from error
    events, errors = [], []
    for one in encoded:
        try:
            events.append(_event_decoder.decode(one))
        except (msgspec.MsgspecError, RecursionError) as error:
            errors.append(str(error))
    return PopRecord(low_water, events, errors)


def mask_of(offsets: Iterable[int], start: int) -> int:
    """Return a set of messages as a number."""
    mask = 0
    for offset in offsets:
        mask |= 1 << (offset - start)
    return mask


def pack_bits(mask: int) -> bytes:
    """Return a set of messages in the form of the log."""
    return mask.to_bytes((mask.bit_length() + 7) >> 3, "little")


def unpack_bits(bits: bytes) -> int:
    """Return a set of messages as a number."""
    return int.from_bytes(bits, "little")
