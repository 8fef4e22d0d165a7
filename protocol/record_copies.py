"""Make stored records from others without decoding them: unchanged parts keep their bytes, the body its CRC.

The caller must know that the source record is intact. The bytes are the same as those of `record.pack_record`, which
tests verify.
"""

from struct import Struct, error as StructError
from typing import NamedTuple

from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import RECORD_MAGIC

_HEAD_OF_17 = b"\xdc\x00\x11\xce"
_MAGIC_AND_I64 = b"\xce" + RECORD_MAGIC.to_bytes(4, "big") + b"\xd3"
_PREFIX_BYTES = 13
_HOST_AT = 90
_BODY_HEAD_BYTES = 5
_pack_prefix = Struct(">4sIcI").pack
_numbers = Struct(">33xq10xqxixixi10xIxB").unpack_from
_pack_head = Struct(">6sqcicqcqcqcicicicqcI2s8s").pack
_pack_length16 = Struct(">BH").pack


class Parts(NamedTuple):
    """A stored record, split where copies differ from it."""

    data: bytes
    queue_offset: int
    born_ms: int
    sys_flag: int
    flag: int
    reconsume_times: int
    body_crc: int
    topic_at: int
    properties: bytes
    body_head_at: int


class CopyOf(NamedTuple):
    """The parts of a copy that differ from its source."""

    log_position: int
    queue_id: int
    queue_offset: int
    stored_ms: int
    sys_flag: int
    born_host: bytes
    """IPv4 address and port, 8 bytes."""
    packed_topic: bytes
    properties: bytes


def cut(data: bytes) -> Parts:
    """Return the parts of the complete record in `data`."""
    queue_offset, born_ms, sys_flag, flag, reconsume_times, body_crc, host_bytes = _numbers(data)
    topic_at = _HOST_AT + host_bytes
    properties_at = topic_at + 6 + (data[topic_at + 1] << 8 | data[topic_at + 2])
    body_head_at = properties_at + (data[properties_at - 2] << 8 | data[properties_at - 1])
    return Parts(
        data, queue_offset, born_ms, sys_flag, flag, reconsume_times, body_crc, topic_at,
        data[properties_at:body_head_at], body_head_at,
    )  # fmt: skip


def consumed_again(parts: Parts, new: CopyOf) -> bytes:
    """Return a copy with reconsume_times increased by one, and no prepared position. Raises: ProtocolError."""
    try:
        # fmt: off
        head = _pack_head(
            _MAGIC_AND_I64, new.log_position, b"\xd2", new.queue_id, b"\xd3", new.queue_offset, b"\xd3", new.stored_ms,
            b"\xd3", parts.born_ms, b"\xd2", new.sys_flag, b"\xd2", parts.flag, b"\xd2", parts.reconsume_times + 1,
            b"\xd3", 0, b"\xce", parts.body_crc, b"\xc4\x08", new.born_host,
        )
        # fmt: on
    except StructError as error:
        raise ProtocolError(f"does not fit into a record: {error}") from error
    return _joined(parts, head, new.packed_topic, new.properties)


def renamed(parts: Parts, packed_topic: bytes, properties: bytes) -> bytes:
    """Return the same record with another topic and other properties. Raises: ProtocolError."""
    return _joined(parts, parts.data[_PREFIX_BYTES : parts.topic_at], packed_topic, properties)


def _joined(parts: Parts, head: bytes, packed_topic: bytes, properties: bytes) -> bytes:
    data, body_head_at = parts.data, parts.body_head_at
    body_at = body_head_at + _BODY_HEAD_BYTES
    try:
        properties_head = _pack_length16(0xC5, len(properties))
    except StructError as error:
        raise ProtocolError(f"does not fit into a record: {error}") from error
    covered = b"".join((head, packed_topic, properties_head, properties, data[body_head_at:body_at]))
    size = _PREFIX_BYTES + len(covered) + len(data) - body_at
    return b"".join((_pack_prefix(_HEAD_OF_17, size, b"\xce", crc32(covered)), covered, memoryview(data)[body_at:]))
