"""The records of a transaction. Pure. RocketMQ: TransactionalMessageBridge, TransactionalMessageUtil.

half       RMQ_SYS_TRANS_HALF_TOPIC, 0      as sent, without transaction bits; __transactionId__, REAL_TOPIC, REAL_QID
end        RMQ_SYS_TRANS_OP_HALF_TOPIC, 0   the tag `d`; the body has queue offsets of halves, a comma after each one
final      its real queue                   as the half, with the commit bits and the half's log position
moved      TRANS_CHECK_MAX_TIME_TOPIC, 0    as the half, if its producer didn't end it
"""

from msgspec.structs import replace

from staticfire.broker.delay.stored_form import real_place
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, ProtocolError
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    WAIT,
    find_property,
    format_properties,
    text_property,
    with_last_end,
    with_property,
    without_property,
)
from staticfire.protocol.record import StoredRecord, pack_stored
from staticfire.protocol.sys_flag import TransactionKind, with_transaction_kind
from staticfire.protocol.tags import java_hash, tags_code

OP_TAG = "d"
_OP_PROPERTIES = format_properties({TAGS: OP_TAG, WAIT: "true"})
_OP_TAGS_CODE = java_hash(OP_TAG)
_NOWHERE = bytes(8)


def half_of(record: NewRecord, unique_id: str, queue: Queue) -> NewRecord:
    """Return a message as a half message. Raises: BrokerAnswer (its properties get too long)."""
    properties = record.properties
    if b"REAL_" in properties or b"__transactionId__" in properties:
        for name in (TRANSACTION_ID, REAL_TOPIC, REAL_QID):
            properties = without_property(properties, name)
    added = b"__transactionId__\x01%b\x02REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02"
    place = record.queue.topic.encode("utf-8", "replace"), record.queue.queue_id
    properties = with_last_end(properties) + added % (unique_id.encode("utf-8", "replace"), *place)
    if len(properties) > PROPERTIES_BYTES_MAX:
        words = (
            f"a half message has {len(properties)} bytes of properties, the limit of a record is {PROPERTIES_BYTES_MAX}"
        )
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    sys_flag = with_transaction_kind(record.sys_flag, TransactionKind.NONE)
    return replace(record, queue=queue, properties=properties, sys_flag=sys_flag)


def stored_half(half: NewRecord, queue_offset: int, log_position: int, stored_ms: int) -> StoredRecord:
    """Return a half message as needed to end it, without reading it. Its sizes and checksums are 0."""
    return StoredRecord(
        0, 0, 0, log_position, half.queue.queue_id, queue_offset, stored_ms, half.born_ms, half.sys_flag, half.flag,
        half.reconsume_times, 0, 0, half.born_host, half.queue.topic, half.properties, half.body,
    )  # fmt: skip


def place_of(half: StoredRecord) -> tuple[str, int]:
    """Return the real topic and queue id of a half message. Raises: ProtocolError (it contains none)."""
    place = real_place(half.properties)
    if place is None:
        raise ProtocolError(f"the half message at position {half.log_position} of the log names no topic and queue")
    return place


def final_of(half: StoredRecord, queue: Queue) -> NewRecord:
    """Return a half message in the form that its consumers get."""
    return NewRecord(
        queue, half.properties, tags_code(half.properties), half.body, half.born_ms, half.born_host,
        with_transaction_kind(half.sys_flag, TransactionKind.COMMIT), half.flag, half.reconsume_times,
        half.log_position,
    )  # fmt: skip


def set_aside(half: StoredRecord, queue: Queue) -> NewRecord:
    """Return a half message that was not ended, for an operator to look at."""
    return NewRecord(
        queue, half.properties, tags_code(half.properties), half.body, half.born_ms, half.born_host, half.sys_flag,
        half.flag, half.reconsume_times, wait_flush=False,
    )  # fmt: skip


def end_of(offsets: list[int], queue: Queue, now_ms: int) -> NewRecord:
    """Return the record that the half messages at these queue offsets have ended."""
    body = b"".join([b"%d," % offset for offset in offsets])
    return NewRecord(queue, _OP_PROPERTIES, _OP_TAGS_CODE, body, now_ms, _NOWHERE)


def ended_by(record: StoredRecord) -> list[int]:
    """Return the queue offsets of the half messages that a record has ended."""
    return [int(part) for part in record.body.split(b",") if part.isdigit()]


def question(half: StoredRecord, times: int) -> bytes:
    """Return the stored bytes of a half message for the `times`-th check request to its producer.

    Raises: ProtocolError (it contains no topic).
    """
    topic, queue_id = place_of(half)
    properties = with_property(half.properties, TRANSACTION_CHECK_TIMES, str(times))
    properties = with_property(properties, WAIT, "false")
    return pack_stored(replace(half, topic=topic, queue_id=queue_id, properties=properties))


def producer_group(properties: bytes) -> str:
    """Return the producer group to check a half message with."""
    return text_property(properties, PGROUP)


def age_ms(half: StoredRecord, now_ms: int, is_wall: bool) -> int:
    """Return the age of a half message. `is_wall`: whether message time is real time, and was never moved.

    RocketMQ counts from when the producer created the message. That is real time, so it can't be compared with message
    time after this was moved.
    """
    return now_ms - (half.born_ms if is_wall else half.stored_ms)


def wait_ms(properties: bytes, time_out_ms: int) -> int:
    """Return the time from when a half message is stored to its first check."""
    return immunity_ms(properties, time_out_ms) or time_out_ms


def immunity_ms(properties: bytes, least_ms: int) -> int | None:
    """Return the requested time before the first check; None if there is none. RocketMQ: getImmunityTime."""
    if b"CHECK_IMMUNITY" not in properties:
        return None
    text = find_property(properties, CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None:
        return None
    try:
        return max(int(text) * 1000, least_ms)
    except ValueError:
        return least_ms
