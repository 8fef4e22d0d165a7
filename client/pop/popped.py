"""Reads the response to a pop. Pure. RocketMQ: MQClientAPIImpl.processPopResponse.

Each message gets the handle for its acknowledgement: a retry contains its own; for others it is made of the info
strings in the response. A message without info can't be acknowledged: it isn't delivered, and the broker redelivers it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from staticfire.client.cluster.pull_answers import received_as
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, RecordBatch
from staticfire.protocol.errors import ProtocolError, broker_answer
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.pop_handles import (
    OrderCounts,
    PopHandle,
    QueueKey,
    flag_of,
    parse_handle,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
)
from staticfire.protocol.properties import FIRST_POP_TIME, POP_CK
from staticfire.protocol.requests.pop import PopAnswer
from staticfire.protocol.tags import TagExpression
from staticfire.protocol.times import UptimeMs


class PopStatus(Enum):
    """The result of a pop. RocketMQ: PopStatus."""

    FOUND = "FOUND"
    POLLING_FULL = "POLLING_FULL"
    """The broker holds too many pops already, and responded at once."""
    POLLING_NOT_FOUND = "POLLING_NOT_FOUND"


_STATUS_OF_CODE: dict[int, PopStatus] = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT: PopStatus.POLLING_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.POLLING_NOT_FOUND,
}


class PoppedMessage(ReceivedMessage):
    """A message that is invisible to other members until it is acknowledged, or its invisible time ends."""

    __slots__ = ("handle", "invisible_until_ms")

    handle: PopHandle
    """The handle to acknowledge it with; changing the invisible time replaces it."""
    invisible_until_ms: UptimeMs
    """When its invisible time ends, in uptime of the consumer's machine."""

    @property
    def first_popped_ms(self) -> int:
        """When the group first popped it, by the broker's clock."""
        text = self.get(FIRST_POP_TIME) or ""
        return int(text) if text.isdecimal() and text.isascii() else self.handle.pop_time_ms


class PopSource(NamedTuple):
    """A pop's request and broker, which are needed to read its response."""

    group: str
    topic: str
    broker_name: str
    broker_host: bytes
    """8 or 20 bytes, for codecs whose records don't contain it."""


class PopResult(NamedTuple):
    """Messages, and how many more there are at least. `lost`: how many have no handle, and why the first has none."""

    status: PopStatus
    messages: list[PoppedMessage]
    rest: int = 0
    lost: int = 0
    reason: str = ""


class _Infos(NamedTuple):
    """The info strings of a response."""

    start_offsets: dict[QueueKey, int]
    message_offsets: dict[QueueKey, list[int]]
    counts: OrderCounts | None


def read_pop(answer: Answer, source: PopSource, uptime_ms: UptimeMs) -> PopResult:
    """Return the result of a pop, whose response came at `uptime_ms`. Raises: BrokerAnswer (refused), ProtocolError."""
    status = _STATUS_OF_CODE.get(answer.code)
    if status is None:
        raise broker_answer(
            answer.code, answer.remark, f"pop {source.topic} of {source.broker_name} for {source.group}"
        )
    if status is not PopStatus.FOUND:
        return PopResult(status, [], answer.rest_num if isinstance(answer, PopAnswer) else 0)
    if not isinstance(answer, PopAnswer):
        raise ProtocolError(f"the response to a pop of {source.topic} has code {answer.code} without any details")
    batch: RecordBatch | None = answer.body
    messages: list[PoppedMessage] = []
    if batch is not None:
        messages = received_as(PoppedMessage, batch, source.broker_name, source.broker_host)
    infos = _Infos(
        parse_start_offsets(answer.start_offset_info),
        parse_message_offsets(answer.msg_offset_info),
        parse_order_counts(answer.order_count_info) if answer.order_count_info else None,
    )
    kept, reason = [], ""
    for message in messages:
        try:
            message.handle = _handle_of(message, answer, source, infos)
        except ProtocolError as error:
            reason = reason or str(error)
            continue
        message.topic = source.topic
        message.invisible_until_ms = UptimeMs(uptime_ms + message.handle.invisible_ms)
        kept.append(message)
    return PopResult(status, kept, answer.rest_num, len(messages) - len(kept), reason)


def _handle_of(message: PoppedMessage, answer: PopAnswer, source: PopSource, infos: _Infos) -> PopHandle:
    """Return a message's handle. Raises: ProtocolError (the response contains none)."""
    own = message.get(POP_CK)
    if own is not None:
        handle = parse_handle(own)
        if handle.queue_offset < 0:
            raise ProtocolError(f"the handle {own!r} doesn't identify its message")
        return handle
    flag, queue_id, queue_offset = flag_of(message.topic), message.queue_id, message.queue_offset
    start_offset = infos.start_offsets.get((flag, queue_id))
    if start_offset is None or queue_offset not in infos.message_offsets.get((flag, queue_id), ()):
        raise ProtocolError(
            f"the response has no entry for offset {queue_offset} in queue {queue_id} of {message.topic}"
        )
    if infos.counts is not None:
        message.reconsume_times = infos.counts.of(flag, queue_id, queue_offset)
    return PopHandle(
        start_offset, answer.pop_time, answer.invisible_time, answer.revive_qid, flag, source.broker_name, queue_id,
        queue_offset,
    )  # fmt: skip


def give_plain_topic(messages: Iterable[PoppedMessage], plain_topic: str) -> None:
    """Set the topic's plain name, which programs use."""
    for message in messages:
        message.topic = plain_topic


def split_wanted(
    messages: list[PoppedMessage], tags: TagExpression | None
) -> tuple[list[PoppedMessage], list[PoppedMessage]]:
    """Return the messages with a wanted tag, and the others: a broker compares only hash codes of tags.

    `tags`: None if the broker filters by something else.
    """
    if tags is None or tags.all_tags:
        return messages, []
    wanted = [message for message in messages if tags.matches(message.tags)]
    return wanted, [message for message in messages if message not in wanted] if len(wanted) < len(messages) else []
