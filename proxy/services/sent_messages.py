"""Messages from clients: checks in RocketMQ's order, and the conversion into what brokers store. Pure.

RocketMQ: SendMessageActivity, GrpcValidator. Digests, store times, queues and handles in the request are ignored.
"""

from collections.abc import Sequence
from typing import NamedTuple

from staticfire.protocol.properties import (
    BORN_HOST,
    BORN_TIMESTAMP,
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    KEYS,
    PGROUP,
    RECONSUME_TIME,
    RESERVED_NAMES,
    SHARDING_KEY,
    TAGS,
    TIMER_DELIVER_MS,
    TRACE_CONTEXT,
    TRAN_MSG,
    UNIQ_KEY,
)
from staticfire.protocol.sys_flag import COMPRESSED, TransactionKind
from staticfire.protocol.times import MessageMs
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, Encoding, Message, MessageType, SystemProperties
from staticfire.proxy.services.names import has_control, topic_of
from staticfire.proxy.services.pb_times import millis
from staticfire.proxy.services.statuses import StatusError

BODY_BYTES_MAX = 4 * 1024 * 1024
USER_PROPERTIES_MAX = 128
USER_PROPERTIES_BYTES_MAX = 16_384
DELAY_MS_MAX = 86_400_000
RECOVERY_MS_MAX = 3_600_000
MESSAGE_GROUP_BYTES_MAX = 63

# Read once: an enumeration looks up its value by name each time, which is too slow to do for each message.
_TRANSACTION, _GZIP = MessageType.TRANSACTION, Encoding.GZIP


class SentMessage(NamedTuple):
    """A message as it is stored. `group`: set if the order of the message counts."""

    message_id: str
    properties: dict[str, str]
    body: bytes
    sys_flag: int
    born_ms: int
    group: str


def check_messages(messages: Sequence[Message], message_ms: MessageMs) -> str:
    """Check all messages of a call; return their topic. Raises: StatusError."""
    if not messages:
        raise StatusError(Code.MESSAGE_CORRUPTED, "no message to send")
    topic = topic_of(messages[0].topic)
    for message in messages:
        if message.topic != messages[0].topic:
            raise StatusError(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        _check_body(message.body)
        _check_properties(message)
        _check_system_properties(message.system_properties, message_ms)
    return topic


def _check_body(body: bytes) -> None:
    if not body:
        raise StatusError(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > BODY_BYTES_MAX:
        raise StatusError(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {BODY_BYTES_MAX}")


def _check_properties(message: Message) -> None:
    properties, system = message.user_properties, message.system_properties
    size = 0
    if properties:
        if len(properties) > USER_PROPERTIES_MAX:
            words = f"too many user properties, max is {USER_PROPERTIES_MAX}"
            raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, words)
        for name, value in properties.items():
            if name in RESERVED_NAMES:
                raise _illegal_key(f"property is used by system: {name}")
            if has_control(name):
                raise _illegal_key("the key of property cannot contain control character")
            if has_control(value):
                raise _illegal_key("the value of property cannot contain control character")
            size += len(name.encode()) + len(value.encode())
    if system.HasField("tag"):
        _check_tag(system.tag)
        size += len(system.tag.encode())
    for key in system.keys:
        if not key.strip():
            raise StatusError(Code.ILLEGAL_MESSAGE_KEY, "key cannot be the char sequence of whitespace")
        if has_control(key):
            raise StatusError(Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character")
        size += len(key.encode())
    if size > USER_PROPERTIES_BYTES_MAX:
        words = f"the total size of user property is too large, max is {USER_PROPERTIES_BYTES_MAX}"
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, words)


def _illegal_key(words: str) -> StatusError:
    return StatusError(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, words)


def _check_tag(tag: str) -> None:
    if tag and not tag.strip():
        raise StatusError(Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace")
    if "|" in tag:
        raise StatusError(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    if has_control(tag):
        raise StatusError(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character")


def _check_system_properties(system: SystemProperties, message_ms: MessageMs) -> None:
    if not system.message_id.strip():
        raise StatusError(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if has_control(system.message_id):
        raise StatusError(Code.ILLEGAL_MESSAGE_ID, "message id cannot contain control character")
    if system.message_type == _TRANSACTION:
        recovery_ms = millis(system.orphaned_transaction_recovery_duration)
        if recovery_ms > RECOVERY_MS_MAX:
            words = f"the max transaction recovery time of message is too large, max is {RECOVERY_MS_MAX // 1000}"
            raise StatusError(Code.BAD_REQUEST, words)
    if millis(system.delivery_timestamp) - message_ms > DELAY_MS_MAX:
        words = f"the max delay time of message is too large, max is {DELAY_MS_MAX}"
        raise StatusError(Code.ILLEGAL_DELIVERY_TIME, words)
    if system.HasField("message_group"):
        _check_message_group(system.message_group)
    for text in (system.trace_context, system.born_host):
        # A control character would split them into separate properties.
        if has_control(text):
            raise StatusError(Code.BAD_REQUEST, "trace context and born host cannot contain control character")


def _check_message_group(group: str) -> None:
    if group and not group.strip():
        raise StatusError(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot be the char sequence of whitespace")
    if len(group.encode()) > MESSAGE_GROUP_BYTES_MAX:
        words = f"message group exceed the max size {MESSAGE_GROUP_BYTES_MAX + 1}"
        raise StatusError(Code.ILLEGAL_MESSAGE_GROUP, words)
    if has_control(group):
        raise StatusError(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot contain control character")


def sent_message(topic: str, message: Message, peer: str) -> SentMessage:
    """Return a checked message as it is stored. `peer`: `ip:port` of the client."""
    system = message.system_properties
    properties = dict(message.user_properties)
    if system.tag:
        properties[TAGS] = system.tag
    if system.keys:
        properties[KEYS] = " ".join(system.keys)
    properties[UNIQ_KEY] = system.message_id
    sys_flag = COMPRESSED if system.body_encoding == _GZIP else 0
    if system.message_type == _TRANSACTION:
        sys_flag |= TransactionKind.PREPARED
        properties[TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            recovery_ms = millis(system.orphaned_transaction_recovery_duration)
            properties[CHECK_IMMUNITY_TIME_IN_SECONDS] = str(recovery_ms // 1000)
    if system.HasField("delivery_timestamp"):
        properties[TIMER_DELIVER_MS] = str(millis(system.delivery_timestamp))
    properties[RECONSUME_TIME] = str(system.delivery_attempt)
    properties[PGROUP] = topic
    if system.message_group:
        properties[SHARDING_KEY] = system.message_group
    if system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context
    properties[BORN_HOST] = system.born_host or peer
    born_ms = millis(system.born_timestamp)
    properties[BORN_TIMESTAMP] = str(born_ms)
    return SentMessage(system.message_id, properties, message.body, sys_flag, born_ms, system.message_group)
