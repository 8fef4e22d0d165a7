"""What clients get: a stored message as gRPC clients read it. Pure. RocketMQ: GrpcConverter.buildMessage.

Bodies stay as they were sent, compressed ones too: the client looks at the digest before it expands them.
"""

from collections.abc import Mapping

from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import offset_id, offset_id_prefix
from staticfire.protocol.properties import (
    BORN_HOST,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    KEYS,
    RESERVED_NAMES,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRACE_CONTEXT,
    UNIQ_KEY,
    parse_properties,
)
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    DeadLetterQueue,
    Digest,
    DigestType,
    Encoding,
    Message,
    MessageType,
    Resource,
    SystemProperties,
)
from staticfire.proxy.services.message_types import DELAYED, FIFO, NORMAL, TRANSACTION, type_of_message
from staticfire.proxy.services.pb_times import timestamp

_TYPES = {
    NORMAL: MessageType.NORMAL,
    FIFO: MessageType.FIFO,
    DELAYED: MessageType.DELAY,
    TRANSACTION: MessageType.TRANSACTION,
}
_MD5, _GZIP, _IDENTITY = DigestType.MD5, Encoding.GZIP, Encoding.IDENTITY
MOMENT_MS_MAX = 253_402_300_799_000
# The last year that protobuf's timestamps have is 9999.


def received_message(record: StoredRecord, topic: str, store_host: bytes, attempt: int, receipt: str) -> Message:
    """Return a message for a client.

    `topic`: the one it subscribed to; `store_host`: 8 or 20 bytes; `attempt`: the how-manieth it is, from 1 on;
    `receipt`: empty for a message that nobody acknowledges.
    """
    from hashlib import md5  # here, since a start does without OpenSSL

    properties = parse_properties(record.properties)
    system = SystemProperties(
        message_id=properties.get(UNIQ_KEY) or offset_id(offset_id_prefix(store_host), record.log_position),
        body_digest=Digest(type=_MD5, checksum=md5(record.body).hexdigest().upper()),
        body_encoding=_GZIP if record.sys_flag & COMPRESSED else _IDENTITY,
        message_type=_TYPES[type_of_message(properties)],
        born_timestamp=timestamp(min(max(record.born_ms, 0), MOMENT_MS_MAX)),
        born_host=properties.get(BORN_HOST) or host_text(record.born_host),
        store_timestamp=timestamp(record.stored_ms),
        store_host=host_text(store_host),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        delivery_attempt=attempt,
    )
    if receipt:
        system.receipt_handle = receipt
    _add_optional(system, properties, record.stored_ms)
    user = {name: value for name, value in properties.items() if name not in RESERVED_NAMES}
    return Message(topic=Resource(name=topic), user_properties=user, system_properties=system, body=record.body)


def _add_optional(system: SystemProperties, properties: Mapping[str, str], stored_ms: int) -> None:
    if TAGS in properties:
        system.tag = properties[TAGS]
    if KEYS in properties:
        system.keys.extend(properties[KEYS].split())
    if SHARDING_KEY in properties:
        system.message_group = properties[SHARDING_KEY]
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    deliver_ms = _number(properties.get(TIMER_DELIVER_MS))
    delay_s = _number(properties.get(TIMER_DELAY_SEC))
    if deliver_ms is not None:
        system.delivery_timestamp.CopyFrom(timestamp(min(deliver_ms, MOMENT_MS_MAX)))
    elif delay_s is not None:
        system.delivery_timestamp.CopyFrom(timestamp(min(stored_ms + delay_s * 1000, MOMENT_MS_MAX)))
    if DLQ_ORIGIN_TOPIC in properties and DLQ_ORIGIN_MESSAGE_ID in properties:
        origin = DeadLetterQueue(topic=properties[DLQ_ORIGIN_TOPIC], message_id=properties[DLQ_ORIGIN_MESSAGE_ID])
        system.dead_letter_queue.CopyFrom(origin)


def _number(text: str | None) -> int | None:
    """Return a number of a property, None where there is none: whoever stored it wasn't asked."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None
