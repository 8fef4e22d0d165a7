"""Replies to messages, which a broker forwards to the requesting client. RocketMQ: ReplyMessageRequestHeader."""

from collections.abc import Mapping
from typing import Any, ClassVar

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.send import SEND_LETTERS, SendAnswer, SendMessage


@request(RequestCode.SEND_REPLY_MESSAGE, answer=SendAnswer)
class SendReply(SendMessage, rename="camel"):
    """Store a reply, and pass it on to the client whose id is in its property REPLY_TO_CLIENT."""


@request(RequestCode.SEND_REPLY_MESSAGE_V2, answer=SendAnswer, names=SEND_LETTERS)
class SendReplyV2(SendMessage, rename="camel"):
    """The same under one-letter names: what Java sends by default."""


@request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class PushReply(Request, rename="camel"):
    """From a broker to a producer: here is a reply. Hosts are `/ip:port`; the body is the reply's."""

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
    born_host: str = ""
    store_host: str = ""
    store_timestamp: Int64 = 0
    when_absent: ClassVar[Mapping[str, Any]] = SendMessage.when_absent
