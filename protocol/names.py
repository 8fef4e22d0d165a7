"""Names of topics and groups: what they may look like, and which of them are RocketMQ's own.

RocketMQ: TopicValidator, KeyBuilder, MixAll. The faults of topics are the remarks of a RocketMQ broker, word for word.
"""

import re
from collections.abc import Container

TOPIC_CHARS_MAX = 127
TOPIC_BYTES_MAX = 127
RETRY_TOPIC_BYTES_MAX = 255
GROUP_CHARS_MAX = 255

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
REPLY_SUFFIX = "_REPLY_TOPIC"

GRPC_ENDPOINTS_GROUP = "STATICFIRE_GRPC_ENDPOINTS"
# Endpoints are producers of this group: brokers pass questions on to them about consumers that they don't know.

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
WHEEL_TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
NOT_SENDABLE_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        WHEEL_TIMER_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
TOOLS_GROUP = "TOOLS_CONSUMER"
# Whoever only looks reads as this group: every broker has it, it has no members, and nothing is committed for it.
SYSTEM_GROUPS = frozenset(
    {
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)
DEFAULT_PRODUCER_GROUP = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP = "DEFAULT_CONSUMER"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_IN_WORDS = "^[%|a-zA-Z0-9_-]+$"


def topic_fault(topic: str | None) -> str | None:
    """Return why a broker refuses a topic's name, None when it doesn't."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if _LEGAL.fullmatch(topic) is None:
        return f"The specified topic contains illegal characters, allowing only {_LEGAL_IN_WORDS}"
    if len(topic) > TOPIC_CHARS_MAX:
        return "The specified topic is longer than topic max length."
    return None


def fits_store(topic: str) -> bool:
    """Whether a topic, which passed or went around `topic_fault`, is short enough to be stored."""
    length = len(topic.encode("utf-8", "replace"))
    return length <= (RETRY_TOPIC_BYTES_MAX if topic.startswith(RETRY_PREFIX) else TOPIC_BYTES_MAX)


def group_fault(group: str | None) -> str | None:
    """Return why a client refuses a group's name, None when it doesn't."""
    if group is None or not group.strip():
        return "the group is blank"
    if len(group) > GROUP_CHARS_MAX:
        return f"the group is {len(group)} characters long, {GROUP_CHARS_MAX} are allowed"
    if _LEGAL.fullmatch(group) is None:
        return f"the group {group!r} contains characters other than {_LEGAL_IN_WORDS}"
    return None


def may_create_group(group: str) -> bool:
    """Whether a broker creates a group of that name when it is first heard of; the empty name is one of them."""
    return len(group) <= GROUP_CHARS_MAX and (not group or _LEGAL.fullmatch(group) is not None)


def is_system_topic(topic: str, added: Container[str] = ()) -> bool:
    """Whether a topic is RocketMQ's own; `added` are those a broker named after itself and its cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in added


def may_be_sent_to(topic: str) -> bool:
    """Whether clients may send to a topic."""
    return topic not in NOT_SENDABLE_TOPICS and not topic.startswith(REVIVE_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether a consumer group is RocketMQ's own."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of a group's retries."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic that replies to requests are sent to."""
    return cluster + REPLY_SUFFIX


def revive_topic(cluster: str) -> str:
    """Return the topic in which brokers note what is popped."""
    return REVIVE_TOPIC_PREFIX + cluster


def is_retry_topic(topic: str) -> bool:
    """Whether a topic holds a group's retries."""
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """Whether a topic holds a group's dead letters."""
    return topic.startswith(DLQ_PREFIX)


def group_of_topic(topic: str) -> str | None:
    """Return the group whose retries or dead letters a topic holds, None of any other topic."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return None


def pop_retry_topic(topic: str, group: str, version: int = 1) -> str:
    """Return the topic of a group's retries of one topic, in POP consumption."""
    return f"{RETRY_PREFIX}{group}{'_' if version == 1 else '+'}{topic}"


def asked_for(topic: str, group: str) -> str:
    """Return the topic that a group asks for to get what lies in that one: of a POP retry topic its topic, or itself.

    The inverse of `pop_retry_topic`.
    """
    prefix = RETRY_PREFIX + group
    return topic[len(prefix) + 1 :] if topic.startswith((prefix + "_", prefix + "+")) else topic


def is_client(client: str, wanted: str) -> bool:
    """Tell whether a client is meant: by its id, or by one part of `ip@instance@unit`."""
    return client == wanted or wanted in client.split("@")
