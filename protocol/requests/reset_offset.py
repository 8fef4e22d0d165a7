"""Administrators move, compare and copy the offsets of groups. RocketMQ: ResetOffsetRequestHeader, ..."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.locks import MessageQueue


class ResetOffsetBody(msgspec.Struct, rename="camel", gc=False):
    """Offsets by queue. RocketMQ: ResetOffsetBody."""

    offset_table: dict[MessageQueue, Int64] = {}


class QueueOffsetsAnswer(Answer, rename="camel"):
    """The group's new offsets."""

    body_type: ClassVar[Any] = ResetOffsetBody


@request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, answer=QueueOffsetsAnswer)
class ResetOffset(Request, rename="camel"):
    """Move a group in a topic: one queue to an offset, or one or all to a stored time, -1 for the end."""

    group: str
    topic: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 = -1
    bname: str | None = None


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
class ResetClientOffset(Request, rename="camel"):
    """Reset a consumer's offsets, one-way: only with useServerSideResetOffset=false."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None
    body_type: ClassVar[Any] = ResetOffsetBody


class CppQueueOffset(msgspec.Struct, rename="camel", gc=False):
    """A queue with its offset. RocketMQ: MessageQueueForC."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: Int64


class CppQueueOffsets(msgspec.Struct, rename="camel", gc=False):
    """Offsets that a C++ tool sends to consumers. RocketMQ: ResetOffsetBodyForC."""

    offset_table: list[CppQueueOffset] = []


class ConsumerStatus(msgspec.Struct, rename="camel", gc=False):
    """Offsets of consumers: of one by queue, or of all of a group by client id. RocketMQ: GetConsumerStatusBody."""

    message_queue_table: dict[MessageQueue, Int64] = {}
    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}


class ConsumerStatusAnswer(Answer, rename="camel"):
    """Offsets of consumers."""

    body_type: ClassVar[Any] = ConsumerStatus


@request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, answer=ConsumerStatusAnswer)
class GetClientStatus(Request, rename="camel"):
    """Sent by a broker to a client: query its offsets in this topic."""

    topic: str
    group: str
    client_addr: str | None = None


@request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, answer=ConsumerStatusAnswer)
class GetConsumerStatus(Request, rename="camel"):
    """Query the offsets of a group's members in a topic; `client_addr` is one client's id."""

    topic: str
    group: str
    client_addr: str | None = None
    bname: str | None = None


@request(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffset(Request, rename="camel"):
    """Copy the offsets of another group, in one topic or in all."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None
    bname: str | None = None


class CorrectionOffsets(msgspec.Struct, rename="camel", gc=False):
    """Offsets by queue id. RocketMQ: QueryCorrectionOffsetBody."""

    correction_offsets: dict[int, Int64] = {}


class CorrectionOffsetsAnswer(Answer, rename="camel"):
    """The smallest offsets that other groups have."""

    body_type: ClassVar[Any] = CorrectionOffsets


@request(RequestCode.QUERY_CORRECTION_OFFSET, answer=CorrectionOffsetsAnswer)
class QueryCorrectionOffset(Request, rename="camel"):
    """Ask for the smallest offset of each queue over all groups but those of `filter_groups`, joined by commas."""

    compare_group: str
    topic: str
    filter_groups: str | None = None
    bname: str | None = None
