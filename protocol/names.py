"""Names of topics and groups: which names are legal, and which are RocketMQ's own.

RocketMQ: TopicValidator, KeyBuilder, MixAll. The texts for illegal topics are the same as those of a RocketMQ broker.
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

# gRPC endpoints are producers of this group. A broker forwards requests about consumers unknown to it to the endpoints.
GRPC_ENDPOINTS_GROUP = "STATICFIRE_GRPC_ENDPOINTS"

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
# Programs that only read messages use this group: every broker has it, it has no members, and no offsets are committed.
TOOLS_GROUP = "TOOLS_CONSUMER"
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


def has_legal_characters(name: str) -> bool:
    """Return whether a name of a topic or a group has at least one character, and only legal ones."""
    return _LEGAL.fullmatch(name) is not None


def topic_fault(topic: str | None) -> str | None:
    """Return why a broker refuses a topic's name, or None if the name is legal."""
    if topic is None or not topic.strip():
        return "The specified topic is blank."
    if _LEGAL.fullmatch(topic) is None:
        return f"The specified topic contains illegal characters, allowing only {_LEGAL_IN_WORDS}"
    if len(topic) > TOPIC_CHARS_MAX:
        return "The specified topic is longer than topic max length."
    return None


def fits_store(topic: str) -> bool:
    """Return whether a topic is short enough to be stored, also one that `topic_fault` wasn't called for."""
    length = len(topic.encode("utf-8", "replace"))
    return length <= (RETRY_TOPIC_BYTES_MAX if topic.startswith(RETRY_PREFIX) else TOPIC_BYTES_MAX)


def group_fault(group: str | None) -> str | None:
    """Return why a client refuses a group's name, or None if the name is legal."""
    if group is None or not group.strip():
        return "the group is blank"
    if len(group) > GROUP_CHARS_MAX:
        return f"the group is {len(group)} characters long, the limit is {GROUP_CHARS_MAX}"
    if _LEGAL.fullmatch(group) is None:
        return f"the group {group!r} contains characters other than {_LEGAL_IN_WORDS}"
    return None


def user_fault(name: str) -> str | None:
    """Return why a user can't have this name, or None if it can."""
    if not name.strip() or any(char.isspace() or char in ",/=" for char in name):
        return f"{name!r} can't be the name of a user: it must have no blanks, commas, slashes or equals signs"
    return None


def may_create_group(group: str) -> bool:
    """Return whether a broker creates a group of that name at its first request; true for the empty name."""
    return len(group) <= GROUP_CHARS_MAX and (not group or _LEGAL.fullmatch(group) is not None)


def is_system_topic(topic: str, added: Container[str] = ()) -> bool:
    """Return whether a topic is RocketMQ's own. `added`: topics that a broker named after itself and its cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in added


def may_be_sent_to(topic: str) -> bool:
    """Return whether clients may send to a topic."""
    return topic not in NOT_SENDABLE_TOPICS and not topic.startswith(REVIVE_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return whether a consumer group is RocketMQ's own."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of a group's retries."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic to which replies to requests are sent."""
    return cluster + REPLY_SUFFIX


def revive_topic(cluster: str) -> str:
    """Return the topic in which brokers record pops."""
    return REVIVE_TOPIC_PREFIX + cluster


def is_retry_topic(topic: str) -> bool:
    """Return whether a topic contains a group's retries."""
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """Return whether a topic contains a group's dead letters."""
    return topic.startswith(DLQ_PREFIX)


def group_of_topic(topic: str) -> str | None:
    """Return the group whose retries or dead letters a topic contains, or None for any other topic."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return None


def pop_retry_topic(topic: str, group: str, version: int = 1) -> str:
    """Return the topic of a group's retries of one topic, in POP consumption."""
    return f"{RETRY_PREFIX}{group}{'_' if version == 1 else '+'}{topic}"


def requested_topic(topic: str, group: str) -> str:
    """Return the topic that a group must request to get the messages of `topic`.

    For a POP retry topic, it is its original topic; for any other, the topic itself. This is the inverse of
    `pop_retry_topic`.
    """
    prefix = RETRY_PREFIX + group
    return topic[len(prefix) + 1 :] if topic.startswith((prefix + "_", prefix + "+")) else topic


def is_client(client: str, wanted: str) -> bool:
    """Return whether `wanted` matches a client: it is the client's id, or one part of `ip@instance@unit`."""
    return client == wanted or wanted in client.split("@")
