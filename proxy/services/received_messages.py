"""Converts stored messages into messages for gRPC clients. Pure. RocketMQ: GrpcConverter.buildMessage.

Bodies are sent as they are stored, compressed ones too: the client checks the digest before it decompresses them.
"""

from binascii import hexlify
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from staticfire.client.cluster.pull_answers import packed_address
from staticfire.protocol.compiled import ReceivedHead, twin
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
from staticfire.proxy.proto.rocketmq_v2_pb2 import DigestType, Encoding, Message, MessageType
from staticfire.proxy.proto.wire import LENGTHY, NUMBER, lengthy, moment, number, tag, text, varint
from staticfire.proxy.services.message_types import DELAYED, FIFO, NORMAL, TRANSACTION, TYPE_NAMES, type_of_message
from staticfire.proxy.services.receipts import Popped
from staticfire.proxy.transport.calls import PackedAnswers, answer_head

# Protobuf's timestamps end with the year 9999.
MOMENT_MS_MAX = 253_402_300_799_000
HOSTS_KEPT = PACKERS_KEPT = 1_024
# A share of this size is sent. The messages after it aren't encoded before the client's windows permit it.
SHARE_BYTES = 64 * 1024

# The fields of a Message; the tags after them are those of its SystemProperties.
_TOPIC, _USER_PROPERTY, _SYSTEM, _BODY = (tag(field, LENGTHY) for field in range(1, 5))
_TAG, _KEY, _MESSAGE_ID, _DIGEST = (tag(field, LENGTHY) for field in range(1, 5))
_BORN, _BORN_HOST, _STORED, _STORE_HOST, _DELIVERY, _RECEIPT = (tag(field, LENGTHY) for field in range(7, 13))
_QUEUE_ID, _QUEUE_OFFSET, _ATTEMPT = tag(13, NUMBER), tag(14, NUMBER), tag(16, NUMBER)
_GROUP, _TRACE, _DEAD_LETTER = tag(17, LENGTHY), tag(18, LENGTHY), tag(20, LENGTHY)
_FIRST, _SECOND = tag(1, LENGTHY), tag(2, LENGTHY)
# The message in a ReceiveMessageResponse.
_ANSWERED = tag(2, LENGTHY)
_ENCODINGS = tuple(number(tag(5, NUMBER), encoding) for encoding in (Encoding.IDENTITY, Encoding.GZIP))
_TYPES = {
    name: number(tag(6, NUMBER), int(kind))
    for name, kind in (
        (NORMAL, MessageType.NORMAL),
        (FIFO, MessageType.FIFO),
        (DELAYED, MessageType.DELAY),
        (TRANSACTION, MessageType.TRANSACTION),
    )
}
_MD5_CHARS = 32
_MD5_HEAD = lengthy(_DIGEST, number(tag(1, NUMBER), DigestType.MD5) + lengthy(_SECOND, bytes(_MD5_CHARS)))[:-_MD5_CHARS]

_RARE = frozenset((TIMER_DELIVER_MS, TIMER_DELAY_SEC, SHARDING_KEY, TRACE_CONTEXT, DLQ_ORIGIN_TOPIC))
# How the compiled twin treats a property: 0 is ignored, 1 to 4 have a field; for 5 the twin leaves the message to us.
_KINDS = (
    dict.fromkeys([name.encode() for name in RESERVED_NAMES], 0)
    | {name.encode(): kind for kind, name in enumerate((TAGS, KEYS, UNIQ_KEY, BORN_HOST), 1)}
    | dict.fromkeys([name.encode() for name in (*_RARE, *TYPE_NAMES, DLQ_ORIGIN_MESSAGE_ID)], 5)
)

received_head: ReceivedHead | None = None if twin is None else twin.received_head


def received_message(record: StoredRecord, topic: str, store_host: bytes, attempt: int, receipt: str) -> Message:
    """Return a message for a client, decoded from what `MessagePacker` makes."""
    return Message.FromString(MessagePacker(topic, store_host).message(record, attempt, receipt))


class MessagePacker:
    """Encodes messages of one topic from one broker. What they have in common is encoded once."""

    def __init__(self, topic: str, store_host: bytes) -> None:
        """`topic`: the one that the client has subscribed to; `store_host`: 8 or 20 bytes."""
        self._topic = lengthy(_TOPIC, text(_SECOND, topic))
        self._store_host = text(_STORE_HOST, host_text(store_host))
        self._shared = self._topic, _MD5_HEAD, self._store_host, _KINDS
        self._id_prefix = offset_id_prefix(store_host)
        from hashlib import md5  # imported here, because a start doesn't need OpenSSL

        self._md5 = md5

    def before_body(self, record: StoredRecord, attempt: int, receipt: str) -> bytes:
        """Return the response to a receive with one message, as it is sent, up to the bytes of the message's body.

        `attempt`: 1 for the first delivery; `receipt`: empty for a message that isn't acknowledged.
        """
        digest = self._md5(record.body).digest()
        if received_head is not None:
            stored = (
                record.properties, record.body, _packed_host(record.born_host), record.sys_flag, record.born_ms,
                record.stored_ms, record.queue_id, record.queue_offset,
            )  # fmt: skip
            made = received_head(stored, self._shared, digest, receipt, attempt)
            if made is not None:
                return made
        head = self._head(record, digest, attempt, receipt)
        message_bytes = len(head) + len(record.body)
        field = _ANSWERED + varint(message_bytes)
        return answer_head(len(field) + message_bytes) + field + head

    def shares(self, first: PackedAnswers, messages: Iterable[Popped], last: PackedAnswers) -> Iterator[PackedAnswers]:
        """Yield these responses in order, in shares: each is several responses in encoded form.

        Each body is copied only once.
        """
        pieces: list[bytes] = [first]
        size = len(first)
        for record, receipt, reconsume_times in messages:
            before, body = self.before_body(record, reconsume_times + 1, str(receipt)), record.body
            pieces += (before, body)
            size += len(before) + len(body)
            if size >= SHARE_BYTES:
                yield PackedAnswers(b"".join(pieces))
                pieces.clear()
                size = 0
        pieces.append(last)
        yield PackedAnswers(b"".join(pieces))

    def message(self, record: StoredRecord, attempt: int, receipt: str) -> bytes:
        """Return the bytes of a Message."""
        return self._head(record, self._md5(record.body).digest(), attempt, receipt) + record.body

    def _head(self, record: StoredRecord, digest: bytes, attempt: int, receipt: str) -> bytes:
        """Return the bytes of a Message without its body, which is the last field."""
        properties = parse_properties(record.properties)
        message_id = properties.get(UNIQ_KEY) or offset_id(self._id_prefix, record.log_position)
        tags, keys, born_host = properties.get(TAGS), properties.get(KEYS), properties.get(BORN_HOST)
        delivery, behind = _NOTHING_RARE if _RARE.isdisjoint(properties) else _rare(properties, record.stored_ms)
        system = b"".join(
            (
                text(_TAG, tags) if tags else b"",
                _keys(keys) if keys else b"",
                text(_MESSAGE_ID, message_id),
                _MD5_HEAD,
                hexlify(digest).upper(),
                _ENCODINGS[record.sys_flag & COMPRESSED],
                _TYPES[type_of_message(properties)],
                moment(_BORN, min(max(record.born_ms, 0), MOMENT_MS_MAX)),
                text(_BORN_HOST, born_host) if born_host else _packed_host(record.born_host),
                moment(_STORED, record.stored_ms),
                self._store_host,
                delivery,
                text(_RECEIPT, receipt),
                number(_QUEUE_ID, record.queue_id),
                _QUEUE_OFFSET,
                varint(record.queue_offset),
                _ATTEMPT,
                varint(attempt),
                behind,
            )
        )
        user = [
            lengthy(_USER_PROPERTY, text(_FIRST, name) + text(_SECOND, value))
            for name, value in properties.items()
            if name not in RESERVED_NAMES
        ]
        body = _BODY + varint(len(record.body)) if record.body else b""
        return b"".join((self._topic, *user, _SYSTEM, varint(len(system)), system, body))


@lru_cache(PACKERS_KEPT)
def packer_of(topic: str, address: str) -> MessagePacker:
    """Return the packer for a topic's messages from the broker with this address."""
    return MessagePacker(topic, packed_address(address))


@lru_cache(HOSTS_KEPT)
def _packed_host(born_host: bytes) -> bytes:
    return text(_BORN_HOST, host_text(born_host))


def _keys(keys: str) -> bytes:
    return b"".join([text(_KEY, key) for key in keys.split()])


_NOTHING_RARE = b"", b""


def _rare(properties: Mapping[str, str], stored_ms: int) -> tuple[bytes, bytes]:
    """Return the fields that few messages have: the delivery time, and those after the attempt."""
    deliver_ms = _number(properties.get(TIMER_DELIVER_MS))
    delay_s = _number(properties.get(TIMER_DELAY_SEC))
    if deliver_ms is None and delay_s is not None:
        deliver_ms = stored_ms + delay_s * 1000
    delivery = b"" if deliver_ms is None else moment(_DELIVERY, min(deliver_ms, MOMENT_MS_MAX))
    behind = text(_GROUP, properties.get(SHARDING_KEY, "")) + text(_TRACE, properties.get(TRACE_CONTEXT, ""))
    if DLQ_ORIGIN_TOPIC in properties and DLQ_ORIGIN_MESSAGE_ID in properties:
        origin = text(_FIRST, properties[DLQ_ORIGIN_TOPIC]) + text(_SECOND, properties[DLQ_ORIGIN_MESSAGE_ID])
        behind += lengthy(_DEAD_LETTER, origin)
    return delivery, behind


def _number(text: str | None) -> int | None:
    """Return a property as a number; None if it isn't one, because properties aren't checked when they are stored."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None
