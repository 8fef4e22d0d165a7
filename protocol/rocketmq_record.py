"""Convert RocketMQ's own binary record and batch body to and from the stored record. RocketMQ: MessageDecoder.

    size   field                        size   field
    4      record_bytes                 8      stored_ms
    4      magic: DAA320A7, DAA320AB    8, 20  store host
    4      body_crc                     4      reconsume_times
    4      queue_id                     8      prepared_position
    4      flag                         4 + n  body
    8      queue_offset                 1 + n  topic (magic ..A7, V1); 2 + n (magic ..AB, V2)
    8      log_position                 2 + n  properties
    4      sys_flag
    8      born_ms
    8, 20  born host

V2 is used for topics longer than 127 bytes, as in RocketMQ. A host has 20 bytes if it is IPv6; bits of sysFlag state
this (0x10 born, 0x20 store). The store host isn't stored here: it is filled in for the requesting client. A prepared
position below 0 is the broker's own mark; it becomes 0.

Invariant: a record of a RocketMQ broker that is converted to a stored record and back has the same bytes, except for
the store host.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from struct import Struct, error as StructError
from typing import NamedTuple

from staticfire.protocol.checksums import crc32
from staticfire.protocol.command import Records
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import BATCH_MESSAGES_MAX
from staticfire.protocol.record import (
    PROPERTIES_BYTES_MAX,
    RECORD_MAGIC,
    Buffer,
    StoredRecord,
    decode_record,
)
from staticfire.protocol.sys_flag import BORN_HOST_V6, STORE_HOST_V6

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB

# The lengths are signed in Java: a larger one would be negative there.
_TOPIC_BYTES_MAX_V1 = 127
_TOPIC_BYTES_MAX = 32_767

_NOT_HOST_BITS = ~(BORN_HOST_V6 | STORE_HOST_V6)

# The fields up to the topic's length, for an IPv4 born host.
_stored_head = Struct(">4xI11xqxixqxqxqxixixixqxIxB8sxH").unpack_from
_length16 = Struct(">H").unpack_from
_TOPIC_LENGTH_AT_V4 = 99
# With IPv4, a stored record is always longer than RocketMQ's (V1) by this difference.
_SIZE_DIFFERENCE_V4 = 18

_heads = {(born, store): Struct(f">IIIiiqqiq{born}sq{store}siqi") for born in (8, 20) for store in (8, 20)}
_pack_head_v4 = _heads[8, 8].pack
_TOO_LONG = f"{{}} bytes of properties: a RocketMQ client can read {PROPERTIES_BYTES_MAX}"
_SYS_FLAG_AT = 36
_sys_flag_of = Struct(">i").unpack_from
_length32 = Struct(">I").unpack_from
_batch_head = Struct(">iiiii")
_batch_flag_and_length = Struct(">12xii").unpack_from
_pack_length16_signed = Struct(">h").pack


def record_for(stored: bytes, is_native: bool, store_host: bytes) -> Records | bytes:
    """Return a stored record as a body: in our own codec, or in RocketMQ's format. Raises: see `to_rocketmq`."""
    return Records([stored], 1) if is_native else to_rocketmq(stored, store_host)


def to_rocketmq(stored: Buffer, store_host: bytes, at: int = 0) -> bytes:
    """Return the stored record at `at` in RocketMQ's format, as if stored by a broker at `store_host` (8 or 20 bytes).

    The stored bytes are trusted, because they come from the log. Raises: ProtocolError (topic or properties of more
    than 32767 bytes, a store host of another length).
    """
    # fmt: off
    (
        size, position, queue_id, queue_offset, stored_ms, born_ms, sys_flag, flag, reconsume_times,
        prepared_position, body_crc, born_bytes, born_host, topic_bytes,
    ) = _stored_head(stored, at)
    # fmt: on
    properties_at = at + _TOPIC_LENGTH_AT_V4 + 3 + topic_bytes
    if born_bytes != 8 or len(store_host) != 8 or topic_bytes > _TOPIC_BYTES_MAX_V1:
        return _to_rocketmq_v6_or_v2(stored, store_host, at)
    properties_bytes = _length16(stored, properties_at)[0]
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise ProtocolError(_TOO_LONG.format(properties_bytes))
    body_at = properties_at + 7 + properties_bytes
    end = at + size
    # fmt: off
    return b"".join((
        _pack_head_v4(
            size - _SIZE_DIFFERENCE_V4, MAGIC_V1, body_crc, queue_id, flag, queue_offset, position,
            sys_flag & _NOT_HOST_BITS, born_ms, born_host, stored_ms, store_host, reconsume_times,
            prepared_position if prepared_position > 0 else 0, end - body_at,
        ),
        stored[body_at:end],
        # This begins with the low byte of the topic's length.
        stored[at + _TOPIC_LENGTH_AT_V4 + 1 : properties_at - 1],
        # This begins with their length: both records have the same two bytes there.
        stored[properties_at : body_at - 5],
    ))
    # fmt: on


def _to_rocketmq_v6_or_v2(stored: Buffer, store_host: bytes, at: int) -> bytes:
    """Do the same as `to_rocketmq` for a record with an IPv6 host or a long topic."""
    record = decode_record(stored[at : at + _length32(stored, at + 4)[0]])
    topic = record.topic.encode()
    if len(topic) <= _TOPIC_BYTES_MAX_V1:
        magic, topic_length = MAGIC_V1, len(topic).to_bytes(1)
    else:
        magic, topic_length = MAGIC_V2, len(topic).to_bytes(2)
    head = _heads.get((len(record.born_host), len(store_host)))
    if head is None or len(topic) > _TOPIC_BYTES_MAX or len(record.properties) > PROPERTIES_BYTES_MAX:
        raise ProtocolError(
            f"RocketMQ has no record with hosts of {len(record.born_host)} and {len(store_host)} bytes, a topic of "
            f"{len(topic)} and properties of {len(record.properties)}"
        )
    sys_flag = record.sys_flag & _NOT_HOST_BITS
    sys_flag |= BORN_HOST_V6 if len(record.born_host) == 20 else 0
    sys_flag |= STORE_HOST_V6 if len(store_host) == 20 else 0
    tail = b"".join((record.body, topic_length, topic, len(record.properties).to_bytes(2), record.properties))
    # fmt: off
    return head.pack(
        head.size + len(tail), magic, record.body_crc, record.queue_id, record.flag, record.queue_offset,
        record.log_position, sys_flag, record.born_ms, record.born_host, record.stored_ms, store_host,
        record.reconsume_times, max(record.prepared_position, 0), len(record.body),
    ) + tail
    # fmt: on


def rocketmq_records(slices: Sequence[Buffer], store_host: bytes) -> list[bytes]:
    """Return each stored record in RocketMQ's format; a slice may contain several. Raises: ProtocolError."""
    if twin is not None:
        return twin.rocketmq_records(slices, store_host, to_rocketmq)
    return rocketmq_records_in_python(slices, store_host)


def rocketmq_records_in_python(slices: Iterable[Buffer], store_host: bytes) -> list[bytes]:
    """Do the same as `rocketmq_records` without the compiled version. Raises: ProtocolError."""
    records: list[bytes] = []
    for stored in slices:
        at, stop = 0, len(stored)
        while at < stop:
            records.append(to_rocketmq(stored, store_host, at))
            at += _length32(stored, at + 4)[0]
    return records


def from_rocketmq(data: bytes, at: int = 0, check_body: bool = True) -> tuple[StoredRecord, bytes, int]:
    """Return the record at `at`, its store host and its size. RocketMQ: MessageDecoder.decode.

    The record's `record_bytes` is the size of its stored form. Its `record_crc` is 0, because it has none before it is
    packed.
    `check_body`: verify the body's CRC, which RocketMQ's own consumers don't.

    Raises: ProtocolError.
    """
    try:
        return _from_rocketmq(data, at, check_body)
    except (StructError, ValueError, KeyError) as error:
        raise ProtocolError(f"not a record of RocketMQ: {error}") from error


def _from_rocketmq(data: bytes, at: int, check_body: bool) -> tuple[StoredRecord, bytes, int]:
    flags = _sys_flag_of(data, at + _SYS_FLAG_AT)[0]
    head = _heads[20 if flags & BORN_HOST_V6 else 8, 20 if flags & STORE_HOST_V6 else 8]
    # fmt: off
    (
        size, magic, body_crc, queue_id, flag, queue_offset, position, sys_flag, born_ms, born_host,
        stored_ms, store_host, reconsume_times, prepared_position, body_bytes,
    ) = head.unpack_from(data, at)
    # fmt: on
    end = at + size
    if end > len(data):
        raise ProtocolError(f"a record of {size} bytes, of which only {len(data) - at} are present")
    body_at = at + head.size
    topic_length_at = body_at + body_bytes
    if body_bytes < 0 or topic_length_at >= end:
        raise ProtocolError(f"a body of {body_bytes} bytes in a record of {size}")
    if magic == MAGIC_V1:
        topic_at, topic_bytes, topic_max = topic_length_at + 1, data[topic_length_at], _TOPIC_BYTES_MAX_V1
    elif magic == MAGIC_V2:
        topic_at, topic_bytes, topic_max = topic_length_at + 2, _length16(data, topic_length_at)[0], _TOPIC_BYTES_MAX
    else:
        raise ProtocolError(f"a record's magic is {MAGIC_V1:#x} or {MAGIC_V2:#x}, not {magic:#x}")
    properties_at = topic_at + topic_bytes + 2
    properties_bytes = _length16(data, properties_at - 2)[0]
    if properties_at + properties_bytes != end or properties_bytes > PROPERTIES_BYTES_MAX or topic_bytes > topic_max:
        raise ProtocolError(f"body, topic and properties do not add up to the record's {size} bytes")
    topic = data[topic_at : topic_at + topic_bytes].decode()
    properties = data[properties_at:end]
    body = data[body_at:topic_length_at]
    if check_body and crc32(body) & 0x7FFFFFFF != body_crc:
        raise ProtocolError(f"the body of the record at {position} does not match its CRC")
    stored_bytes = size + _SIZE_DIFFERENCE_V4 - (magic == MAGIC_V2) - (len(store_host) - 8)
    # fmt: off
    record = StoredRecord(
        stored_bytes, 0, RECORD_MAGIC, position, queue_id, queue_offset, stored_ms, born_ms, sys_flag & ~STORE_HOST_V6,
        flag, reconsume_times, prepared_position, body_crc, born_host, topic, properties, body,
    )
    # fmt: on
    return record, store_host, size


class BatchMessage(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


# This takes half the time of calling the class.
_make_batch_message: Callable[[tuple[int, bytes, bytes]], BatchMessage] = partial(tuple.__new__, BatchMessage)


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """Return the body of a batch send. RocketMQ: MessageDecoder.encodeMessages. Raises: ProtocolError.

    Per message: i32 size of all this, i32 0 (magic), i32 0 (CRC), i32 flag, i32 n + body, i16 n + properties.
    """
    parts: list[bytes] = []
    try:
        for flag, body, properties in messages:
            size = _batch_head.size + len(body) + 2 + len(properties)
            parts += (_batch_head.pack(size, 0, 0, flag, len(body)), body)
            parts += (_pack_length16_signed(len(properties)), properties)
    except StructError as error:
        raise ProtocolError(f"a message does not fit into a batch: {error}") from error
    return b"".join(parts)


def decode_batch(batch: bytes) -> list[BatchMessage]:
    """Return the messages in the body of a batch send. As in RocketMQ, the sizes, magics and CRCs in it are ignored.

    Raises: ProtocolError.
    """
    messages: list[BatchMessage] = []
    append, make = messages.append, _make_batch_message
    at, end, head_bytes, flag_and_length = 0, len(batch), _batch_head.size, _batch_flag_and_length
    try:
        for _ in range(BATCH_MESSAGES_MAX):
            if at >= end:
                break
            flag, body_bytes = flag_and_length(batch, at)
            body_at = at + head_bytes
            if body_bytes < 0:
                raise ProtocolError(f"a batch has a body of {body_bytes} bytes")
            properties_at = body_at + body_bytes + 2
            properties_bytes = _length16(batch, properties_at - 2)[0]
            at = properties_at + properties_bytes
            if properties_bytes > PROPERTIES_BYTES_MAX or at > end:
                raise ProtocolError(f"a batch has properties of {properties_bytes} bytes")
            append(make((flag, batch[body_at : properties_at - 2], batch[properties_at:at])))
        if at < end:
            raise ProtocolError(f"it has more than {BATCH_MESSAGES_MAX} messages")
    except StructError as error:
        raise ProtocolError(f"a batch is incomplete in its message {len(messages)}: {error}") from error
    return messages
