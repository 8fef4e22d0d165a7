"""Checks of names, shared by all calls. Pure. RocketMQ: GrpcValidator, TopicValidator, Validators.

The namespace of a resource is ignored, as in RocketMQ's proxy.
"""

import re

from staticfire.protocol.names import GROUP_CHARS_MAX, SYSTEM_GROUP_PREFIX, TOPIC_CHARS_MAX, is_system_topic
from staticfire.proxy.proto.rocketmq_v2_pb2 import Code, Resource
from staticfire.proxy.services.statuses import StatusError

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_LEGAL_WORDS = "^[%|a-zA-Z0-9_-]+$"
# The characters of Java's Character.isISOControl.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def topic_of(resource: Resource) -> str:
    """Return the name of a topic that clients may use. Raises: StatusError."""
    topic = resource.name
    if not topic.strip():
        raise StatusError(Code.ILLEGAL_TOPIC, "The specified topic is blank")
    if len(topic) > TOPIC_CHARS_MAX:
        raise StatusError(Code.ILLEGAL_TOPIC, f"The specified topic is longer than topic max length {TOPIC_CHARS_MAX}.")
    if _LEGAL.fullmatch(topic) is None:
        words = f"The specified topic[{topic}] contains illegal characters, allowing only {_LEGAL_WORDS}"
        raise StatusError(Code.ILLEGAL_TOPIC, words)
    if is_system_topic(topic):
        raise StatusError(Code.ILLEGAL_TOPIC, "cannot access system topic")
    return topic


def group_of(resource: Resource) -> str:
    """Return the name of a consumer group that clients may use. Raises: StatusError."""
    group = resource.name
    if not group.strip():
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, "the specified group is blank")
    if len(group) > GROUP_CHARS_MAX:
        words = f"the specified group is longer than group max length {GROUP_CHARS_MAX}."
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, words)
    if _LEGAL.fullmatch(group) is None:
        words = f"the specified group[{group}] contains illegal characters, allowing only {_LEGAL_WORDS}"
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, words)
    if group.startswith(SYSTEM_GROUP_PREFIX):
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")
    return group


def has_control(text: str) -> bool:
    """Return whether a text contains a control character."""
    return _CONTROL.search(text) is not None
