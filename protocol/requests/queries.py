"""Look up messages by key, by id and by position in a queue. RocketMQ: QueryMessageRequestHeader, ViewMessage...."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Records, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.clients import SubscriptionData


class QueryAnswer(Answer, rename="camel"):
    """Messages, oldest first. The two fields are the time and log position up to which messages are indexed."""

    index_last_update_timestamp: Int64 = 0
    index_last_update_phyoffset: Int64 = 0
    body_type: ClassVar[Any] = Records


@request(RequestCode.QUERY_MESSAGE, answer=QueryAnswer)
class QueryMessage(Request, rename="camel"):
    """Ask for the newest messages of a topic with a key, stored between two times; `_UNIQUE_KEY_QUERY`: a unique id.

    `index_type`: K for keys only, U for unique ids. `last_key`: only messages that are older than the one with that id.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)
    index_type: str | None = None
    last_key: str | None = None
    bname: str | None = None


@request(RequestCode.FIND_MESSAGES, answer=QueryAnswer)
class FindMessages(Request, rename="camel"):
    """Ask for the newest messages with a key or unique id, in all topics except RocketMQ's own. staticfire's own."""

    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class ViewAnswer(Answer, rename="camel"):
    """One message."""

    body_type: ClassVar[Any] = Records


@request(RequestCode.VIEW_MESSAGE_BY_ID, answer=ViewAnswer)
class ViewMessage(Request, rename="camel"):
    """Ask for the message at a position of the log: what an offset message id says."""

    offset: Int64
    topic: str | None = None
    bname: str | None = None


class QueueEntry(msgspec.Struct, rename="camel", gc=False):
    """One entry of a consume queue. RocketMQ: ConsumeQueueData."""

    physic_offset: Int64
    physic_size: Int64
    tags_code: Int64
    eval: bool = True
    """Whether the group's subscription matches it, by tags only."""
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class QueueEntries(msgspec.Struct, rename="camel", gc=False):
    """A part of a consume queue. RocketMQ: QueryConsumeQueueResponseBody."""

    queue_data: list[QueueEntry] = []
    min_queue_index: Int64 = 0
    max_queue_index: Int64 = 0
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None


class QueueEntriesAnswer(Answer, rename="camel"):
    """A part of a consume queue."""

    body_type: ClassVar[Any] = QueueEntries


@request(RequestCode.QUERY_CONSUME_QUEUE, answer=QueueEntriesAnswer)
class QueryConsumeQueue(Request, rename="camel"):
    """Ask where the messages of a queue lie in the log."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int64
    consumer_group: str | None = None
    bname: str | None = None
