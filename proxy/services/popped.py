"""The messages in a pop's response, each with its receipt. Pure. RocketMQ: MQClientAPIExt.processPopResponse."""

from typing import NamedTuple

from staticfire.protocol.command import RecordBatch
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.pop_handles import PopHandle, flag_of, parse_handle, parse_order_counts, parse_start_offsets
from staticfire.protocol.properties import POP_CK, UNIQ_KEY, find_property, text_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.pop import PopAnswer, PopMessage
from staticfire.proxy.services.receipts import Receipt


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
        told = find_property(record.properties, POP_CK)
        if told is not None:  # The broker rewrites retries: they carry their handle and the requested topic.
            pop = parse_handle(told.decode("utf-8", "replace"))
        else:
            flag = flag_of(record.topic)
            start = starts.get((flag, record.queue_id))
            if start is None:
                raise ProtocolError(
                    f"the response to a pop of {request.topic} has a message of queue {record.queue_id}, but "
                    "no start offset for this queue"
                )
            pop = PopHandle(
                start, answer.pop_time, answer.invisible_time, answer.revive_qid, flag, request.bname,
                record.queue_id, record.queue_offset,
            )  # fmt: skip
        # In an ordered group, a redelivered message keeps its place; the broker sends its count outside of the record.
        came_before = record.reconsume_times
        if counts is not None and not came_before:
            came_before = counts.of(pop.flag, pop.queue_id, pop.queue_offset)
        messages.append(Popped(record, Receipt(pop, record.log_position), came_before))
    return messages
