"""Send one message, a batch for one queue, or many messages for any queues. RocketMQ: SendMessageRequestHeader."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import FRAME_BYTES_MAX, SEND_MANY_TAKEN_MAX
from staticfire.protocol.numbers import Int32, Int64


class SendAnswer(Answer, rename="camel"):
    """The position of the message. For a batch, `msg_id` is all ids, joined by commas; `queue_offset` is the first."""

    msg_id: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    transaction_id: str | None = None
    region: str | None = msgspec.field(name="MSG_REGION", default=None)
    trace_on: str | None = msgspec.field(name="TRACE_ON", default=None)
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@request(RequestCode.SEND_MESSAGE, answer=SendAnswer)
class SendMessage(Request, rename="camel"):
    """Store one message. `queue_id` below 0: the broker chooses. `batch`: the body is a batch body."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {
        "producer_group": "",
        "default_topic": "",
        "default_topic_queue_nums": 0,
    }


# The letters of SendMessageRequestHeaderV2, in the order of the fields.
SEND_LETTERS = dict(zip(SendMessage.__struct_fields__, "abcdefghijklmn", strict=False))


@request(RequestCode.SEND_MESSAGE_V2, answer=SendAnswer, names=SEND_LETTERS)
class SendMessageV2(SendMessage, rename="camel"):
    """The same under one-letter names: what Java sends by default."""


@request(RequestCode.SEND_BATCH_MESSAGE, answer=SendAnswer, names=SEND_LETTERS)
class SendBatch(SendMessage, rename="camel"):
    """The same; a batch when `batch` says so."""


class ManyMessage(msgspec.Struct, array_like=True, gc=False):
    """One message of a SEND_MANY. `properties` is RocketMQ's property string."""

    topic: str
    queue_id: Int32
    properties: bytes
    body: bytes
    sys_flag: Int32 = 0
    flag: Int32 = 0
    born_timestamp: Int64 = 0


class ManyResult(msgspec.Struct, array_like=True, gc=False):
    """The result of one message of a SEND_MANY: its own code, and a remark if it was refused."""

    code: Int64
    queue_id: Int32
    queue_offset: Int64
    log_position: Int64
    remark: str | None = None


class SendManyAnswer(Answer, rename="camel"):
    """One result per message, in the same order."""

    body_type: ClassVar[Any] = list[ManyResult]


@request(RequestCode.SEND_MANY, answer=SendManyAnswer)
class SendMany(Request, rename="camel"):
    """Store messages of any topics and queues; each succeeds or fails by itself. Between staticfire's programs only."""

    producer_group: str
    default_topic: str
    default_topic_queue_nums: Int32
    body_type: ClassVar[Any] = Annotated[list[ManyMessage], msgspec.Meta(max_length=SEND_MANY_TAKEN_MAX)]
    body_bytes_max: ClassVar[int | None] = FRAME_BYTES_MAX
