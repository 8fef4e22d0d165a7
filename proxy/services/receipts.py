"""Popped messages, and the receipt handles by which clients acknowledge them. Pure.

RocketMQ: MQClientAPIExt.processPopResponse, ReceiptHandle. A handle:

    <the handle of the pop, eight parts> <log position>       separated by one space

A handle contains all that an acknowledgement needs, so any proxy accepts it, even a restarted one.
"""

from typing import NamedTuple

from staticfire.protocol.command import RecordBatch
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.pop_handles import (
    PopHandle,
    flag_of,
    format_handle,
    parse_handle,
    parse_order_counts,
    parse_start_offsets,
)
from staticfire.protocol.properties import POP_CK, UNIQ_KEY, find_property, text_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.pop import PopAnswer, PopMessage
from staticfire.protocol.times import MessageMs
from staticfire.proxy.services.statuses import invalid_handle, unreadable

POP_PARTS = 8
LOG_POSITION_UNKNOWN = -1
NUMBER_CHARS_MAX = 19

MessagePlace = tuple[str, str, int, int, int]
"""Requested topic, broker name, flag of the topic, queue id, queue offset: equal for all of a message's handles."""


class Receipt(NamedTuple):
    """A popped message, and its position in the commit log."""

    pop: PopHandle
    log_position: int

    def place(self, topic: str) -> MessagePlace:
        """Return the key of the message, which is the same for all its handles. `topic`: handles don't contain it."""
        pop = self.pop
        return topic, pop.broker_name, pop.flag, pop.queue_id, pop.queue_offset

    @property
    def visible_ms(self) -> int:
        """When the message is visible again."""
        return self.pop.pop_time_ms + self.pop.invisible_ms

    def check_held(self, message_ms: MessageMs) -> None:
        """Check that the message isn't visible again yet. Raises: StatusError."""
        if self.visible_ms <= message_ms:
            raise invalid_handle("receipt handle is expired")

    def __str__(self) -> str:
        handle = format_handle(self.pop)
        return handle if self.log_position == LOG_POSITION_UNKNOWN else f"{handle} {self.log_position}"


def read_receipt(text: str) -> Receipt:
    """Parse a handle. Raises: StatusError."""
    parts = text.split(" ")
    if len(parts) < POP_PARTS:
        raise unreadable(ProtocolError(f"Parse failed, dataList size {len(parts)}"))
    try:
        pop = parse_handle(" ".join(parts[:POP_PARTS]))
    except ProtocolError as error:
        raise unreadable(error) from None
    position = parts[POP_PARTS] if len(parts) > POP_PARTS else ""
    if not position:
        return Receipt(pop, LOG_POSITION_UNKNOWN)
    if not (position.isascii() and position.isdecimal() and len(position) <= NUMBER_CHARS_MAX):
        raise unreadable(ProtocolError(f'For input string: "{position}"'))
    return Receipt(pop, int(position))


class Popped(NamedTuple):
    """A message and its receipt. `reconsume_times`: how often it was delivered before."""

    record: StoredRecord
    receipt: Receipt
    reconsume_times: int

    @property
    def message_id(self) -> str:
        return text_property(self.record.properties, UNIQ_KEY)


def popped_messages(answer: PopAnswer, request: PopMessage) -> list[Popped]:
    """Return the messages of a pop, in the response's order. Raises: ProtocolError."""
    batch: RecordBatch | None = answer.body
    if batch is None or not batch.records:
        return []
    starts = parse_start_offsets(answer.start_offset_info)
    counts = parse_order_counts(answer.order_count_info) if answer.order_count_info else None
    messages = []
    for record in batch.records:
        text = find_property(record.properties, POP_CK)
        if text is not None:  # The broker rewrites retries: they carry their handle and the requested topic.
            pop = parse_handle(text.decode("utf-8", "replace"))
        else:
            flag = flag_of(record.topic)
            start = starts.get((flag, record.queue_id))
            if start is None:
                raise ProtocolError(
                    f"the response to a pop of {request.topic} has a message of queue {record.queue_id}, but "
                    "no start offset for this queue"
                )
            pop = PopHandle(
                start, answer.pop_time, answer.invisible_time, answer.revive_qid, flag, request.bname or "",
                record.queue_id, record.queue_offset,
            )  # fmt: skip
        # In an ordered group, a redelivered message keeps its place; the broker sends its count outside of the record.
        came_before = record.reconsume_times
        if counts is not None and not came_before:
            came_before = counts.of(pop.flag, pop.queue_id, pop.queue_offset)
        messages.append(Popped(record, Receipt(pop, record.log_position), came_before))
    return messages
