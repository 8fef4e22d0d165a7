"""The stored record: how a message is stored in the commit log, and how a native client receives it.

A record is one msgpack array of 17 elements with fixed-width numbers. So a few `struct` calls write it, and fixed
offsets read it. A client decodes a whole pull with one call: it is an array header followed by slices of the log.
Properties are RocketMQ's own string, byte for byte; the body is as sent; no broker address is inside.

    offset  bytes                     element
         0  dc 00 11                  array of 17
         3  ce u32                    record_bytes      the whole record, this head included
         8  ce u32                    record_crc        CRC-32 of all from offset 13 to where the body's bytes begin
        13  ce u32                    magic             0x53460001: "SF", layout 1
        18  d3 i64                    log_position      of offset 0 of this record
        27  d2 i32                    queue_id
        32  d3 i64                    queue_offset
        41  d3 i64                    stored_ms
        50  d3 i64                    born_ms
        59  d2 i32                    sys_flag
        64  d2 i32                    flag
        69  d2 i32                    reconsume_times
        74  d3 i64                    prepared_position  below 0: the broker's own mark, 0 for every other program
        83  ce u32                    body_crc          CRC-32 & 0x7fffffff, 0 for an empty body
        88  c4 u8 + 8 or 20 bytes     born_host         IPv4 or IPv6 address, then the port as i32
         .  da u16 + UTF-8            topic
         .  c5 u16 + bytes            properties
         .  c6 u32 + bytes            body

After the last record of a segment, there is a *blank*: the array of the first four elements with another magic. Its
record_bytes is all the remaining space of the segment, and only its first 27 bytes are written. A salvage writes a
blank in place of the data that it has moved aside.

Invariant: `check_record` accepts whatever `pack_record` wrote; both CRCs together cover every byte from offset 13.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import repeat
from struct import Struct, error as StructError
from typing import NamedTuple, TypeAlias

import msgspec

from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import ProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

RECORD_MAGIC = 0x53460001
BLANK_MAGIC = 0x53460000

# A record is added to a segment only if this much space is left after it, so that a blank always fits.
BLANK_BYTES_MIN = 27

# The size with an IPv4 born host, an empty topic, no properties and an empty body.
RECORD_BYTES_MIN = 109

# Address and port; 20 bytes with IPv6.
IPV4_HOST_BYTES = 8

# RocketMQ writes the length as a signed short.
PROPERTIES_BYTES_MAX = 32_767

# Everything except the contents of born host, properties and body, and the packed topic.
_FIXED_BYTES = 98

_HEAD_OF_17 = b"\xdc\x00\x11\xce"
_HEAD_OF_4 = b"\xdc\x00\x04\xce"
_PREFIX_BYTES = 13
_pack_prefix = Struct(">4sIcI").pack
_MAGIC_ELEMENT = b"\xce\x53\x46\x00\x01"
_pack_middle_v4 = Struct(">5scqcicqcqcqcicicicqcI2s8s").pack
_pack_middle_v6 = Struct(">5scqcicqcqcqcicicicqcI2s20s").pack
_pack_blank_middle = Struct(">BIBq").pack
_pack_length16 = Struct(">BH").pack
_pack_length32 = Struct(">BI").pack
# A table look-up is faster than packing. Nearly all property strings are shorter than this.
_BIN16_HEADS = tuple(b"\xc5" + length.to_bytes(2, "big") for length in range(1024))


class StoredRecord(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A decoded record, element by element."""

    record_bytes: int
    record_crc: int
    magic: int
    log_position: int
    queue_id: int
    queue_offset: int
    stored_ms: int
    born_ms: int
    sys_flag: int
    flag: int
    reconsume_times: int
    prepared_position: int
    body_crc: int
    born_host: bytes
    topic: str
    properties: bytes
    body: bytes


_record_decoder = msgspec.msgpack.Decoder(StoredRecord)
_records_decoder = msgspec.msgpack.Decoder(list[StoredRecord])


def pack_topic(topic: str) -> bytes:
    """Return the topic as it is stored in records. A caller that writes many should keep it. Raises: ProtocolError."""
    try:
        encoded = topic.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"a topic that is not UTF-8: {error}") from error
    if len(encoded) > 0xFFFF:
        raise ProtocolError(f"a topic of {len(encoded)} bytes does not fit into a record (65535)")
    return b"\xda" + len(encoded).to_bytes(2, "big") + encoded


def record_size(born_host: bytes, packed_topic: bytes, properties: bytes, body: bytes) -> int:
    """Return the size of the record that `pack_record` makes of these."""
    return _FIXED_BYTES + len(born_host) + len(packed_topic) + len(properties) + len(body)


def pack_record(  # house: hot, and a value to hold them costs more than the packing
    log_position: int,
    queue_id: int,
    queue_offset: int,
    stored_ms: int,
    born_ms: int,
    sys_flag: int,
    flag: int,
    reconsume_times: int,
    prepared_position: int,
    born_host: bytes,
    packed_topic: bytes,
    properties: bytes,
    body: bytes,
) -> bytes:
    """Return the bytes to append to the log. The hottest function of the project: positional arguments, no loop.

    Raises: ProtocolError (a number is too wide for its field, the born host is neither 8 nor 20 bytes long).
    """
    if len(born_host) == 8:
        pack_middle, born_host_head = _pack_middle_v4, b"\xc4\x08"
    elif len(born_host) == 20:
        pack_middle, born_host_head = _pack_middle_v6, b"\xc4\x14"
    else:
        raise ProtocolError(f"a born host of {len(born_host)} bytes: IPv4 has 8, IPv6 has 20")
    properties_bytes = len(properties)
    body_bytes = len(body)
    try:
        # fmt: off
        middle = pack_middle(
            _MAGIC_ELEMENT, b"\xd3", log_position, b"\xd2", queue_id, b"\xd3", queue_offset, b"\xd3", stored_ms,
            b"\xd3", born_ms, b"\xd2", sys_flag, b"\xd2", flag, b"\xd2", reconsume_times,
            b"\xd3", prepared_position, b"\xce", crc32(body) & 0x7FFFFFFF, born_host_head, born_host,
        )
        # fmt: on
        properties_head = (
            _BIN16_HEADS[properties_bytes] if properties_bytes < 1024 else _pack_length16(0xC5, properties_bytes)
        )
        covered = b"".join((middle, packed_topic, properties_head, properties, _pack_length32(0xC6, body_bytes)))
        return b"".join(
            (_pack_prefix(_HEAD_OF_17, 13 + len(covered) + body_bytes, b"\xce", crc32(covered)), covered, body)
        )
    except StructError as error:
        raise ProtocolError(f"does not fit into a record: {error}") from error


def pack_stored(record: StoredRecord) -> bytes:
    """Return the stored bytes of a record, at its own position. Raises: ProtocolError."""
    # fmt: off
    return pack_record(
        record.log_position, record.queue_id, record.queue_offset, record.stored_ms, record.born_ms, record.sys_flag,
        record.flag, record.reconsume_times, record.prepared_position, record.born_host, pack_topic(record.topic),
        record.properties, record.body,
    )
    # fmt: on


def pack_blank(log_position: int, blank_bytes: int) -> bytes:
    """Return the first 27 bytes of the blank that fills the `blank_bytes` left in a segment."""
    middle = _pack_blank_middle(0xCE, BLANK_MAGIC, 0xD3, log_position)
    return _pack_prefix(_HEAD_OF_4, blank_bytes, b"\xce", crc32(middle)) + middle


def decode_record(record: Buffer) -> StoredRecord:
    """Decode one record. Raises: ProtocolError."""
    try:
        return _record_decoder.decode(record)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a stored record: {error}") from error


def decode_records(batch: Buffer) -> list[StoredRecord]:
    """Return the records of a batch that `join_records` made. CRCs aren't verified. Raises: ProtocolError."""
    try:
        return _records_decoder.decode(batch)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a batch of stored records: {error}") from error


def join_records(slices: Sequence[Buffer], record_count: int | None = None) -> bytes:
    """Return the body of a pull's response: an array header, followed by the slices of the log.

    `record_count` is needed if a slice contains more than one record.
    """
    count = len(slices) if record_count is None else record_count
    return b"".join((_pack_length32(0xDD, count), *slices))


def split_body(body: bytes) -> tuple[int, bytes]:
    """Return the number of records in the body of a pull's response, and all of them in one piece."""
    return _peek_u32(body, 1)[0], body[5:]


# Below: read by fixed offsets only the fields that the dispatcher needs. A complete record must begin at `at`: the
# caller has checked it, or this process has written it.

_peek_numbers = Struct(">4xI11xqxixqxqxqxi").unpack_from
_peek_u32 = Struct(">I").unpack_from
_peek_u16 = Struct(">H").unpack_from
_peek_i64 = Struct(">q").unpack_from
_QUEUE_OFFSET_AT = 33
_PREPARED_POSITION_AT = 75
_BODY_CRC_AT = 84
_HOST_LENGTH_AT = 89
_HOST_AT = 90


class RecordPeek(NamedTuple):
    """The numbers of a record from which indexes are built."""

    record_bytes: int
    log_position: int
    queue_id: int
    queue_offset: int
    stored_ms: int
    born_ms: int
    sys_flag: int


def peek_record_bytes(data: Buffer, at: int = 0) -> int:
    """Return the size of the record at `at`."""
    size: int = _peek_u32(data, at + 4)[0]
    return size


def peek_record(data: Buffer, at: int = 0) -> RecordPeek:
    """Return the numbers of the record at `at`."""
    return RecordPeek._make(_peek_numbers(data, at))


def peek_record_crc(data: Buffer, at: int = 0) -> int:
    """Return the checksum of the record at `at`, which covers all of it but the body's content."""
    crc: int = _peek_u32(data, at + 9)[0]
    return crc


def peek_queue_offsets(records: Sequence[Buffer]) -> list[int]:
    """Return the queue offset of each of these records."""
    return [queue_offset for (queue_offset,) in map(_peek_i64, records, repeat(_QUEUE_OFFSET_AT))]


def peek_prepared_position(data: Buffer, at: int = 0) -> int:
    """Return the prepared position of the record at `at`, or the mark that is stored there."""
    position: int = _peek_i64(data, at + _PREPARED_POSITION_AT)[0]
    return position


def peek_topic_and_properties(data: Buffer, at: int = 0) -> tuple[str, bytes]:
    """Return topic and properties of the record at `at`."""
    topic_at = at + _HOST_AT + data[at + _HOST_LENGTH_AT]
    topic_bytes: int = _peek_u16(data, topic_at + 1)[0]
    properties_at = topic_at + 3 + topic_bytes
    properties_bytes: int = _peek_u16(data, properties_at + 1)[0]
    topic = str(data[topic_at + 3 : properties_at], "utf-8")
    return topic, bytes(data[properties_at + 3 : properties_at + 3 + properties_bytes])


def properties_at(data: bytes, at: int = 0) -> bytes:
    """Return only the properties of the record at `at`."""
    start = at + _HOST_AT + data[at + _HOST_LENGTH_AT]
    # Skip the topic, and the heads of topic and properties.
    start += 6 + (data[start + 1] << 8 | data[start + 2])
    return data[start : start + (data[start - 2] << 8 | data[start - 1])]


_numbers_and_crcs = Struct(">4sIBIxIxqxixq43xIxB").unpack_from


def proven_offset(data: memoryview, log_position: int, record_bytes: int, queue_id: int, packed_topic: bytes) -> int:
    """Return the queue offset of the complete record in `data`; -1 if it isn't one of that queue, at that position.

    It is as strict as `check_record`, in a third of the time: once the CRC of the head fits, the head gives the body's
    start.
    """
    try:
        head, size, mark, crc, magic, position, its_queue, queue_offset, body_crc, host_bytes = _numbers_and_crcs(data)
        topic_at = _HOST_AT + host_bytes
        properties_at = topic_at + len(packed_topic)
        body_at = properties_at + 8 + _peek_u16(data, properties_at + 1)[0]
    except StructError:
        return -1
    if (
        size != record_bytes
        or position != log_position
        or its_queue != queue_id
        or magic != RECORD_MAGIC
        or head != _HEAD_OF_17
        or mark != 0xCE
        or data[topic_at:properties_at] != packed_topic
        or crc32(data[_PREFIX_BYTES:body_at]) != crc
        or crc32(data[body_at:]) & 0x7FFFFFFF != body_crc
    ):
        return -1
    return int(queue_offset)


def is_intact(data: memoryview, record: StoredRecord) -> bool:
    """Return whether both CRCs of a record that was decoded from `data` fit."""
    body_at = len(data) - len(record.body)
    return (
        crc32(record.body) & 0x7FFFFFFF == record.body_crc and crc32(data[_PREFIX_BYTES:body_at]) == record.record_crc
    )


class Found(Enum):
    """The content at a position of the log."""

    RECORD = "record"
    BLANK = "blank"
    NOTHING = "nothing"
    """Zeros or the end of the file: the log wasn't written further."""
    BROKEN = "broken"


class Verdict(NamedTuple):
    """The result of `check_record`."""

    found: Found
    size: int
    """Bytes to the next record (for a blank: to the segment's end); 0 for NOTHING and BROKEN."""
    reason: str


def check_record(data: Buffer, at: int, log_position: int) -> Verdict:
    """Check the content at `at`, which is `log_position` of the log. It never raises, whatever the bytes are."""
    head = bytes(data[at : at + _HOST_AT])
    if not any(head):
        return Verdict(Found.NOTHING, 0, "nothing was written here")
    if len(head) < BLANK_BYTES_MIN:
        return _broken(f"{len(head)} bytes are too short for a record")
    crc = _peek_u32(head, 9)[0]
    magic = _peek_u32(head, 14)[0]
    size, position = _peek_numbers(head.ljust(_HOST_AT, b"\0"))[:2]
    if position != log_position:
        return _broken(f"its own position field is {position}")
    if magic == BLANK_MAGIC:
        if size < BLANK_BYTES_MIN or head[:BLANK_BYTES_MIN] != pack_blank(position, size):
            return _broken("the blank's head is damaged")
        return Verdict(Found.BLANK, size, "")
    if magic != RECORD_MAGIC or head[:4] != _HEAD_OF_17 or head[8] != 0xCE:
        return _broken(f"no record begins with {head[:18].hex()}")
    if size > len(data) - at:
        return _broken(f"it is {size} bytes long, {len(data) - at} are left")
    body_at = _body_at(data, at, size)
    if body_at is None:
        return _broken("its parts do not add up to its length")
    if crc32(data[at + _PREFIX_BYTES : body_at]) != crc:
        return _broken("the CRC of its head does not match")
    if crc32(data[body_at : at + size]) & 0x7FFFFFFF != _peek_u32(head, _BODY_CRC_AT)[0]:
        return _broken("the CRC of its body does not match")
    return Verdict(Found.RECORD, size, "")


def _body_at(data: Buffer, at: int, size: int) -> int | None:
    """Return where the body's bytes begin; None unless host, topic, properties and body fill exactly `size` bytes."""
    end = at + size
    if size < RECORD_BYTES_MIN or data[at + 88] != 0xC4 or data[at + _HOST_LENGTH_AT] not in (8, 20):
        return None
    topic_at = at + _HOST_AT + data[at + _HOST_LENGTH_AT]
    if topic_at + 11 > end or data[topic_at] != 0xDA:
        return None
    properties_at = topic_at + 3 + int.from_bytes(data[topic_at + 1 : topic_at + 3], "big")
    if properties_at + 8 > end or data[properties_at] != 0xC5:
        return None
    body_head_at = properties_at + 3 + int.from_bytes(data[properties_at + 1 : properties_at + 3], "big")
    if body_head_at + 5 > end or data[body_head_at] != 0xC6:
        return None
    body_bytes = int.from_bytes(data[body_head_at + 1 : body_head_at + 5], "big")
    return body_head_at + 5 if body_head_at + 5 + body_bytes == end else None


def _broken(reason: str) -> Verdict:
    return Verdict(Found.BROKEN, 0, reason)
