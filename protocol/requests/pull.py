"""Pull messages of one queue. RocketMQ: PullMessageRequestHeader, PullSysFlag."""

from typing import Any, ClassVar

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Records, Request, also_as, request
from staticfire.protocol.numbers import Int32, Int64

FLAG_COMMIT_OFFSET = 1
FLAG_SUSPEND = 2
FLAG_SUBSCRIPTION = 4
FLAG_CLASS_FILTER = 8
FLAG_LITE_PULL = 16
# The remark of a response that states where a group continues after an administrator has reset it.
OFFSET_RESET = "OFFSET_RESET"


class PullAnswer(Answer, rename="camel"):
    """The messages found, and the next offset to pull. The header fields are present with codes 0, 19, 20 and 21."""

    suggest_which_broker_id: Int64 = 0
    next_begin_offset: Int64 = 0
    min_offset: Int64 = 0
    max_offset: Int64 = 0
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int64 | None = None
    body_type: ClassVar[Any] = Records
    """Records when it is sent, a RecordBatch when it is received."""


class ForbiddenAnswer(PullAnswer, rename="camel"):
    """Why a pull is forbidden: 1 broker, 2 group, 3 topic, 4 broadcasting, 5 subscription. RocketMQ: ForbiddenType.

    It derives from the normal response so that the kind is in the same position. RocketMQ's map contains no other
    field.
    """

    json_fields: ClassVar[frozenset[str] | None] = frozenset({"forbidden_type"})


@request(RequestCode.PULL_MESSAGE, answer=PullAnswer)
class PullMessage(Request, rename="camel"):
    """Ask for messages from `queue_offset` on; with FLAG_SUSPEND the broker may hold it until one comes."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None
    bname: str | None = None
    lo: bool | None = None
    """False: queue id and offset are the broker's own, even if the topic is static."""


@request(RequestCode.LITE_PULL_MESSAGE, answer=PullAnswer)
class LitePullMessage(PullMessage, rename="camel"):
    """The same from a lite pull consumer."""


class WholePullAnswer(PullAnswer, rename="camel"):
    """The response to a pull with its records in one piece, as the codec has them: for readers of whole batches."""

    body_type: ClassVar[Any] = bytes


@also_as(RequestCode.PULL_MESSAGE, answer=WholePullAnswer)
class WholePull(PullMessage, rename="camel"):
    """A pull by a client that splits the records itself."""
