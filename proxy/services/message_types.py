"""The type of a message, and whether its topic accepts it. Pure. RocketMQ: TopicMessageType."""

from collections.abc import Mapping

from staticfire.protocol.names import is_dead_letter_topic, is_retry_topic
from staticfire.protocol.properties import (
    DELAY,
    SHARDING_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRAN_MSG,
)
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, MessageType
from staticfire.proxy.services.statuses import StatusError

ATTRIBUTE = "message.type"
NORMAL, FIFO, DELAYED, TRANSACTION, MIXED = "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"
UNSPECIFIED = "UNSPECIFIED"
"""The type of an unknown topic."""

_ACCEPTED = {
    NORMAL: [MessageType.NORMAL],
    FIFO: [MessageType.FIFO],
    DELAYED: [MessageType.DELAY],
    TRANSACTION: [MessageType.TRANSACTION],
    MIXED: [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION],
}
_DELAYS = frozenset((DELAY, TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS))
TYPE_NAMES = _DELAYS | {TRAN_MSG, SHARDING_KEY}
"""A message without these properties is a normal one."""


def accepted(topic_type: str) -> list[MessageType]:
    """Return the message types that a topic accepts, as clients receive them."""
    return _ACCEPTED.get(topic_type, [MessageType.MESSAGE_TYPE_UNSPECIFIED])


def type_of_topic(attributes: Mapping[str, str]) -> str:
    """Return the type in a topic's attributes."""
    return attributes.get(ATTRIBUTE) or NORMAL


def type_of_message(properties: Mapping[str, str]) -> str:
    """Return a message's type by its properties; the type that its sender states is ignored."""
    if properties.get(TRAN_MSG) == "true":
        return TRANSACTION
    if not _DELAYS.isdisjoint(properties):
        return DELAYED
    return FIFO if SHARDING_KEY in properties else NORMAL


def check_types(topic: str, topic_type: str, *kinds: str) -> None:
    """Check that a topic accepts messages of these types. Raises: StatusError."""
    for actual in kinds:
        if actual == topic_type or topic_type == MIXED or is_retry_topic(topic) or is_dead_letter_topic(topic):
            continue
        words = f"TopicMessageType validate failed, the expected type is {topic_type}, but actual type is {actual}"
        raise StatusError(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, words)
