"""The requested delivery time of a message, and its stored forms. Pure.

RocketMQ: HookUtils.handleTimerMessage.

waiting    rmq_sys_wheel_timer, 0   as sent, with TIMER_OUT_MS, REAL_TOPIC, REAL_QID
delivered  its real queue           as waiting, with TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS; a mark contains its offset
recalled   rmq_sys_wheel_timer, 0   the body `0`, the tag _RECALL_TAG_, TIMER_DEL_UNIQKEY; the same mark

Where other entries have the hash of the tag, the entry of a waiting message contains: due time << 12 | 12 bits of a
checksum of topic and unique id. So a start reads only entries, and a recall reads only few records. TIMER_OUT_MS is the
due time rounded as in RocketMQ, and becomes part of the recall handle. Delivery is exact to the millisecond.
"""

from typing import NamedTuple

from staticfire.broker.delay.stored_form import pack_mark
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.protocol.checksums import crc32
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.delay_levels import requested_level, requested_time_ms
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import (
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    find_property,
    format_properties,
    text_property,
    with_last_end,
    without_property,
)
from staticfire.protocol.recall_handle import RECALL_TAG
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.tags import tags_code

TIMER_LEVEL = 0
"""The level in the marks of timers. No delay level has this number."""
PRECISION_MS = 1_000
HASH_BITS = 12
HASH_MASK = (1 << HASH_BITS) - 1
# The number of bytes that a delivery adds to the properties.
_DELIVERY_BYTES_MAX = 64
_NOWHERE = bytes(8)


class Timed(NamedTuple):
    """The form in which a message waits for its time."""

    due_ms: int
    out_ms: int
    """TIMER_OUT_MS."""
    properties: bytes
    unique_id: str
    entry_code: int


def timed(properties: bytes, place: tuple[str, int], now_ms: int, delay_max_ms: int) -> Timed | None:
    """Return how a message for that topic and queue id waits; None if it doesn't, or if its time has passed.

    Raises: BrokerAnswer (the time is no number or too far away, or its properties get too long).
    """
    if b"TIMER_DEL" not in properties or requested_level(properties) > 0:
        return None
    if find_property(properties, TIMER_OUT_MS) is not None:
        return None  # The message has already waited.
    due_ms = requested_time_ms(properties, now_ms)
    if due_ms is None:
        return None
    is_unreadable = due_ms < 0
    deletes = find_property(properties, TIMER_DEL_UNIQKEY) is not None
    if is_unreadable or due_ms - now_ms > delay_max_ms or (deletes and due_ms <= now_ms):
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, _illegal(delay_max_ms))
    if due_ms <= now_ms:
        return None
    if deletes:
        words = f"recall a message with RECALL_MESSAGE, not with a message that has {TIMER_DEL_UNIQKEY}"
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    if b"REAL_" in properties:
        properties = without_property(without_property(properties, REAL_TOPIC), REAL_QID)
    out_ms, (topic, queue_id) = out_of(due_ms), place
    added = b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (out_ms, topic.encode(), queue_id)
    properties = with_last_end(properties) + added
    if len(properties) + _DELIVERY_BYTES_MAX > PROPERTIES_BYTES_MAX:
        words = (
            f"the message is illegal: its properties have {len(properties)} bytes and its delivery adds "
            f"{_DELIVERY_BYTES_MAX}, the limit is {PROPERTIES_BYTES_MAX}"
        )
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    unique_id = text_property(properties, UNIQ_KEY)
    return Timed(due_ms, out_ms, properties, unique_id, due_ms << HASH_BITS | hash_of(topic, unique_id))


def _illegal(delay_max_ms: int) -> str:
    return (
        f"timer message illegal, the delay time should not be bigger than the max delay {delay_max_ms}ms; or if set "
        "del msg, the delay time should be bigger than the current time"
    )


def out_of(due_ms: int) -> int:
    """Return TIMER_OUT_MS: the last whole second before the due time."""
    return (due_ms - 1) // PRECISION_MS * PRECISION_MS


def hash_of(topic: str, unique_id: str) -> int:
    """Return the bits by which a recall finds a message."""
    return crc32(f"{topic}+{unique_id}".encode()) & HASH_MASK


def entry_code(properties: bytes, stored_ms: int) -> int:
    """Return the tags code for the entry of a record of rmq_sys_wheel_timer; 0 if it doesn't wait."""
    if find_property(properties, TIMER_DEL_UNIQKEY) is not None:
        return 0
    due_ms = requested_time_ms(properties, stored_ms)
    if due_ms is None or due_ms <= 0:
        return 0
    return due_ms << HASH_BITS | hash_of(text_property(properties, REAL_TOPIC), text_property(properties, UNIQ_KEY))


def delivered(waited: StoredRecord, queue: Queue, now_ms: int) -> NewRecord:
    """Return a due message in the form that its consumers get."""
    added = b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02"
    entered_ms = waited.stored_ms // PRECISION_MS * PRECISION_MS
    properties = with_last_end(waited.properties) + added % (entered_ms, now_ms)
    return NewRecord(
        queue, properties, tags_code(properties), waited.body, waited.born_ms, waited.born_host, waited.sys_flag,
        waited.flag, waited.reconsume_times, pack_mark(TIMER_LEVEL, waited.queue_offset), wait_flush=False,
    )  # fmt: skip


def recalled(offset: int, topic: str, unique_id: str, group: str, times: tuple[int, int], queue: Queue) -> NewRecord:
    """Return the record of the recall of the message at an offset.

    `times`: the time in the handle, and the current one.
    """
    handle_ms, now_ms = times
    properties = format_properties(
        {
            TAGS: RECALL_TAG,
            TIMER_DEL_UNIQKEY: f"{topic}+{unique_id}",
            TIMER_DELIVER_MS: str(handle_ms),
            UNIQ_KEY: unique_id,
            PGROUP: group,
        }
    )
    return NewRecord(queue, properties, 0, b"0", now_ms, _NOWHERE, prepared_position=pack_mark(TIMER_LEVEL, offset))
