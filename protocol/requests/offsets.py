"""Offsets of queues and of groups. RocketMQ: the headers named *Offset*.

If `lo` is false, queue id and offset are the broker's own, even if the topic is static. RocketMQ: TopicRequestHeader.
"""

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64


class OffsetAnswer(Answer, rename="camel"):
    """A queue offset."""

    offset: Int64 = 0


class TimestampAnswer(Answer, rename="camel"):
    """Milliseconds since 1970; -1 for none."""

    timestamp: Int64 = 0


@request(RequestCode.QUERY_CONSUMER_OFFSET, answer=OffsetAnswer)
class QueryConsumerOffset(Request, rename="camel"):
    """Query a group's offset in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None
    lo: bool | None = None


@request(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffset(Request, rename="camel"):
    """Store a group's offset in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None
    bname: str | None = None
    lo: bool | None = None


@request(RequestCode.GET_MAX_OFFSET, answer=OffsetAnswer)
class GetMaxOffset(Request, rename="camel"):
    """Ask for the offset that the next message of a queue will get."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    bname: str | None = None
    lo: bool | None = None


@request(RequestCode.GET_MIN_OFFSET, answer=OffsetAnswer)
class GetMinOffset(Request, rename="camel"):
    """Ask for the oldest offset that is still stored."""

    topic: str
    queue_id: Int32
    bname: str | None = None
    lo: bool | None = None


@request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, answer=OffsetAnswer)
class SearchOffset(Request, rename="camel"):
    """Ask for the offset at a stored time; `boundary_type` UPPER: the last at or before it."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    bname: str | None = None
    lo: bool | None = None


@request(RequestCode.GET_EARLIEST_MSG_STORETIME, answer=TimestampAnswer)
class GetEarliestStoreTime(Request, rename="camel"):
    """Ask when a queue's oldest message was stored."""

    topic: str
    queue_id: Int32
    bname: str | None = None
    lo: bool | None = None
