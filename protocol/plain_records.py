"""Pack plain records quickly: those whose flags, reconsume times and prepared position are all 0.

Nearly all records are plain. The packed bytes are the same as those of `record.pack_record`, which tests verify. The
parts that are constant for a queue or a row are packed once, and the pieces of a record are joined only when the log is
written.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct, error as StructError
from typing import TypeAlias

from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import RECORD_MAGIC

# From the mark of sys_flag at 59 to the mark of the body's CRC; all numbers in between are 0.
PLAIN_NUMBERS = b"\xd2\0\0\0\0" * 3 + b"\xd3\0\0\0\0\0\0\0\0\xce"

_HEAD_OF_17 = b"\xdc\x00\x11\xce"
_MAGIC_AND_I64 = b"\xce" + RECORD_MAGIC.to_bytes(4, "big") + b"\xd3"
_PREFIX_BYTES = 13
_pack_prefix = Struct(">4sIcI").pack
_pack_times = Struct(">BqBq").pack
_pack_length32 = Struct(">BI").pack


PlainPacker: TypeAlias = Callable[[int, int, int, int, bytes, bytes, bytes], tuple[bytes, bytes, bytes]]
"""Packs log_position, queue_offset, stored_ms, born_ms, born_host (IPv4), properties, body; returns pieces."""


def plain_packer(queue_id: int, packed_topic: bytes) -> PlainPacker:
    """Return a function that packs the plain records of one queue.

    It takes a third less time than `pack_record`.
    """
    pack_head = _plain_head(len(packed_topic) + 1)
    id_element = b"\xd2" + queue_id.to_bytes(4, "big", signed=True) + b"\xd3"
    topic_element = packed_topic + b"\xc5"

    def pack(
        log_position: int,
        queue_offset: int,
        stored_ms: int,
        born_ms: int,
        born_host: bytes,
        properties: bytes,
        body: bytes,
    ) -> tuple[bytes, bytes, bytes]:
        body_bytes = len(body)
        try:
            # fmt: off
            head = pack_head(
                _MAGIC_AND_I64, log_position, id_element, queue_offset, 0xD3, stored_ms, 0xD3, born_ms, PLAIN_NUMBERS,
                crc32(body) & 0x7FFFFFFF, b"\xc4\x08", born_host, topic_element, len(properties),
            )
            # fmt: on
            covered = b"".join((head, properties, _pack_length32(0xC6, body_bytes)))
            prefix = _pack_prefix(_HEAD_OF_17, _PREFIX_BYTES + len(covered) + body_bytes, b"\xce", crc32(covered))
        except StructError as error:
            raise ProtocolError(f"does not fit into a record: {error}") from error
        return prefix, covered, body

    return pack


Row: TypeAlias = tuple[int, bytes, bytes, int]
"""One record of a row: flag, properties, body, tags code."""


def pack_plain_row(  # house: hot, and a value to hold them costs more than the packing
    log_position: int,
    queue_id: int,
    queue_offset: int,
    stored_ms: int,
    born_ms: int,
    born_host: bytes,
    packed_topic: bytes,
    rows: Sequence[Row],
) -> tuple[list[bytes], list[int]]:
    """Return the pieces of plain records that are adjacent in log and queue, and the size of each record.

    The records of a row have the same times and host. Their flags must be 0. Flags and tags codes aren't checked.
    Raises: ProtocolError.
    """
    pieces: list[bytes] = []
    sizes: list[int] = []
    id_element = b"\xd2" + queue_id.to_bytes(4, "big", signed=True) + b"\xd3"
    host_and_topic = b"\xc4\x08%b%b\xc5" % (born_host, packed_topic)
    pack_head = _row_head(len(host_and_topic))
    try:
        times_and_numbers = _pack_times(0xD3, stored_ms, 0xD3, born_ms) + PLAIN_NUMBERS
        for _, properties, body, _ in rows:
            # fmt: off
            head = pack_head(
                _MAGIC_AND_I64, log_position, id_element, queue_offset, times_and_numbers, crc32(body) & 0x7FFFFFFF,
                host_and_topic, len(properties),
            )
            # fmt: on
            covered = b"".join((head, properties, _pack_length32(0xC6, len(body))))
            size = _PREFIX_BYTES + len(covered) + len(body)
            pieces += (_pack_prefix(_HEAD_OF_17, size, b"\xce", crc32(covered)), covered, body)
            sizes.append(size)
            log_position += size
            queue_offset += 1
    except StructError as error:
        raise ProtocolError(f"does not fit into a record: {error}") from error
    return pieces, sizes


@lru_cache(maxsize=256)
def _row_head(host_and_topic_bytes: int) -> Callable[..., bytes]:
    return Struct(f">6sq6sq43sI{host_and_topic_bytes}sH").pack


@lru_cache(maxsize=256)
def _plain_head(topic_bytes: int) -> Callable[..., bytes]:
    """Return a function that packs from the magic to the properties' length. There is one per length of a topic."""
    return Struct(f">6sq6sqBqBq25sI2s8s{topic_bytes}sH").pack
