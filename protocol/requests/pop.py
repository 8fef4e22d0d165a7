"""Messages that are taken for a limited time and acknowledged. RocketMQ: PopMessageRequestHeader, ....

Handles and the info strings: `protocol/pop_handles.py`; entries of a batch acknowledgement: `protocol/batch_acks.py`.
The codes above 32,767 don't fit into ROCKETMQ's binary headers, only into JSON and msgpack. The assignment of queues by
brokers is in `assignment.py`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Records, Request, request
from staticfire.protocol.numbers import Int32, Int64

ALL_QUEUES = -1
"""As a queue id: any queue of the broker."""
ORDERLY_REVIVE_QUEUE = 999
"""The revive queue of messages that were popped in order."""
POP_MESSAGES_MAX = 32
FROM_MIN, FROM_MAX = 0, 1
"""`init_mode`: where a group without an offset begins."""


class PopAnswer(Answer, rename="camel"):
    """The popped messages, and how to address each one to acknowledge it. Refusals contain only the numbers, all 0."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
    body_type: ClassVar[Any] = Records


@request(RequestCode.POP_MESSAGE, answer=PopAnswer)
class PopMessage(Request, rename="camel"):
    """Take messages that no other client gets for `invisible_time` ms; held for up to `poll_time` ms until one arrives.

    `queue_id` below 0: any queue. `init_mode`: FROM_MIN; any other value is FROM_MAX. `attempt_id`: only with `order`;
    a repeated request with the same id gets the same messages again. staticfire's own are `cancel_id`, the number by
    which this connection may cancel the pop while it is held, and `for_push`: the messages are for a push consumer,
    although this broker doesn't know its group as one of push consumers.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None
    bname: str | None = None
    cancel_id: Int64 | None = None
    for_push: bool | None = None
    when_absent: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        ("queue_id", "max_msg_nums", "invisible_time", "poll_time", "born_time", "init_mode"), 0
    )


@request(RequestCode.ACK_MESSAGE)
class AckMessage(Request, rename="camel"):
    """Say that a message is done. `topic`: where it really lies, a retry topic perhaps; `extra_info`: its handle."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"consumer_group": "", "extra_info": ""}


class BatchAckBody(msgspec.Struct, rename="camel", gc=False):
    """Acknowledged messages, by check-point; `batch_acks.py` reads and makes the entries."""

    acks: list[dict[str, Any]] | None = None
    broker_name: str | None = None


@request(RequestCode.BATCH_ACK_MESSAGE)
class BatchAck(Request, rename="camel"):
    """Say of many messages that they are done."""

    bname: str | None = None
    body_type: ClassVar[Any] = BatchAckBody


class ChangeInvisibleAnswer(Answer, rename="camel"):
    """The parts of the message's next handle; all 0 in refusals."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


@request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, answer=ChangeInvisibleAnswer)
class ChangeInvisibleTime(Request, rename="camel"):
    """Keep a message invisible to others for `invisible_time` ms from now on. Its handle becomes invalid.

    staticfire's own, for push consumers whose group this broker doesn't know as one of push consumers: `given_back`, no
    consumer has the message, since it failed, was lost or never received it; `for_push`, a consumer still works on it.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    bname: str | None = None
    given_back: bool | None = None
    for_push: bool | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"consumer_group": "", "extra_info": ""}


@request(RequestCode.PEEK_MESSAGE, answer=PopAnswer)
class PeekMessage(Request, rename="camel"):
    """Look at the messages that a pop would take."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"queue_id": 0, "max_msg_nums": 0}


class NotificationAnswer(Answer, rename="camel"):
    """Whether there is a message to pop, and whether too many clients are polling already."""

    has_msg: bool = False
    polling_full: bool = False


@request(RequestCode.NOTIFICATION, answer=NotificationAnswer)
class Notification(Request, rename="camel"):
    """Ask whether there is something to pop; held for up to `poll_time` ms until there is."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"queue_id": 0, "poll_time": 0, "born_time": 0}


class PollingInfoAnswer(Answer, rename="camel"):
    """The number of held pops."""

    polling_num: Int32 = 0


@request(RequestCode.POLLING_INFO, answer=PollingInfoAnswer)
class PollingInfo(Request, rename="camel"):
    """Ask how many pops are held under exactly this topic, group and queue id."""

    consumer_group: str
    topic: str
    queue_id: Int32
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"queue_id": 0}


@request(RequestCode.CANCEL_POP)
class CancelPop(Request, rename="camel"):
    """End a held pop of the same connection: no client waits for its messages any more. staticfire's own.

    The pop gets the response of one that found nothing. A pop that isn't held has its response already.
    """

    consumer_group: str
    topic: str
    cancel_id: Int64


@request(RequestCode.POP_ROLLBACK)
class PopRollback(Request, rename="camel"):
    """Bring pops in flight back to an older broker's form; nothing happens."""

    bname: str | None = None
