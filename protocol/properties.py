"""RocketMQ's property string: name 01 value 02, repeated, in UTF-8. RocketMQ: MessageDecoder, MessageConst.

Clients parse it into a dict. The broker never does: it searches single properties in the bytes, appends some and
removes some. Both give the same result: of a repeated name, the last value counts, and an entry without name, value or
01 is ignored.
"""

from collections.abc import Iterable, Mapping

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX

_VALUE_END = 0x02

# Properties that users set with separate parameters, and those that clients set.
KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
UNIQ_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
INSTANCE_ID = "INSTANCE_ID"
BUYER_ID = "BUYER_ID"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"

# Properties that a broker adds.
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
POP_CK = "POP_CK"
POP_CK_OFFSET = "POP_CK_OFFSET"
FIRST_POP_TIME = "1ST_POP_TIME"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
CRC32 = "__CRC32#"

# Properties of retries, set by brokers and consumers.
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
CONSUME_START_TIME = "CONSUME_START_TIME"

# Properties of requests and their replies.
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
MSG_TYPE = "MSG_TYPE"

# Properties of which only the name is used.
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
DUP_INFO = "DUP_INFO"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT = "REDIRECT"
TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"

# Users can't set these as their own properties (RocketMQ: MessageConst.STRING_HASH_SET).
RESERVED_NAMES = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, UNIQ_KEY, INSTANCE_ID, BUYER_ID, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS,
        TRAN_MSG, PGROUP, MSG_REGION, TRACE_ON, CLUSTER, REAL_TOPIC, REAL_QID, TRAN_PREPARED_QUEUE_OFFSET,
        TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_OUT_MS, TIMER_DEL_UNIQKEY, TIMER_DELAY_LEVEL,
        POP_CK, POP_CK_OFFSET, FIRST_POP_TIME, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, CRC32, RETRY_TOPIC,
        ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES, MIN_OFFSET, MAX_OFFSET, CONSUME_START_TIME,
        CORRELATION_ID, REPLY_TO_CLIENT, TTL, ARRIVE_TIME, PUSH_REPLY_TIME, MSG_TYPE, TRANSFER_FLAG, CORRECTION_FLAG,
        MQ2_FLAG, EXTEND_UNIQ_INFO, DUP_INFO, INNER_MULTI_QUEUE_OFFSET, BORN_HOST, BORN_TIMESTAMP,
    }
)  # fmt: skip


def too_long(properties: bytes) -> ProtocolError:
    """Return the error for a string that RocketMQ's clients can't read, though the record format has room for it.

    They read its length as a signed short, so the limit is PROPERTIES_BYTES_MAX.
    """
    return ProtocolError(f"its properties have {len(properties)} bytes, the limit is {PROPERTIES_BYTES_MAX}")


def parse_properties(properties: bytes) -> dict[str, str]:
    """Return the properties by name. Bytes that aren't UTF-8 become U+FFFD, as in Java."""
    parsed = {}
    for entry in properties.decode("utf-8", "replace").split("\x02"):
        name, _, value = entry.partition("\x01")
        if name and value:
            parsed[name] = value
    return parsed


def format_properties(properties: Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """Return the property string. Names and values aren't checked; `Message` has checked them."""
    items = properties.items() if isinstance(properties, Mapping) else properties
    return "".join([f"{name}\x01{value}\x02" for name, value in items]).encode("utf-8", "replace")


def find_property(properties: bytes, name: str | bytes) -> bytes | None:
    """Return a property's value, the last one if it is repeated; None if it is missing or empty."""
    needle = _NEEDLES.get(name) or _needle(name)
    at = properties.rfind(needle)
    if at < 0:
        return None
    if at == 0 or properties[at - 1] == _VALUE_END:
        value_at = at + len(needle)
        end = properties.find(b"\x02", value_at)
        if end > value_at:
            return properties[value_at:end]
    return _find_among_lookalikes(properties, needle)


def text_property(properties: bytes, name: str | bytes) -> str:
    """Return a property as text; empty if there is none."""
    return (find_property(properties, name) or b"").decode("utf-8", "replace")


def _find_among_lookalikes(properties: bytes, needle: bytes) -> bytes | None:
    """Find a property if a match isn't the property: XTAGS or an empty value after TAGS, or a missing last 02."""
    for entry in reversed(properties.split(b"\x02")):
        if entry.startswith(needle) and len(entry) > len(needle):
            return entry[len(needle) :]
    return None


def append_property(properties: bytes, name: str | bytes, value: str | bytes) -> bytes:
    """Append a property. It takes precedence over earlier values of the same name."""
    value_bytes = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return b"%b%b%b\x02" % (with_last_end(properties), _NEEDLES.get(name) or _needle(name), value_bytes)


def with_property(properties: bytes, name: str | bytes, value: str | bytes) -> bytes:
    """Return the string with a property set; all earlier values of the name are removed."""
    return append_property(without_property(properties, name), name, value)


def without_property(properties: bytes, name: str | bytes) -> bytes:
    """Return the string without the properties of a name; the same object if there was none."""
    needle = _NEEDLES.get(name) or _needle(name)
    at = properties.find(needle)
    while at >= 0:
        if at and properties[at - 1] != _VALUE_END:
            at = properties.find(needle, at + 1)  # The end of a longer name.
            continue
        end = properties.find(b"\x02", at)
        if end < 0:
            return properties[: max(at - 1, 0)]  # Some clients omit the last 02; then what is left omits it, too.
        properties = properties[:at] + properties[end + 1 :]
        at = properties.find(needle, at)
    return properties


def with_last_end(properties: bytes) -> bytes:
    """Return the string with the 02 after its last value, which some clients omit."""
    return properties + b"\x02" if properties and properties[-1] != _VALUE_END else properties


def _needle(name: str | bytes) -> bytes:
    return (name if isinstance(name, bytes) else name.encode("utf-8", "replace")) + b"\x01"


# Looking up is faster than concatenating.
_NEEDLES: dict[str | bytes, bytes] = {name: _needle(name) for name in RESERVED_NAMES}
_NEEDLES |= {name.encode(): needle for name, needle in _NEEDLES.items() if isinstance(name, str)}
