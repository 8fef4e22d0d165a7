"""Recall a message that waits for its delivery time. RocketMQ: RecallMessageRequestHeader."""

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request


class RecallAnswer(Answer, rename="camel"):
    """`msg_id`: the unique id of the recalled message."""

    msg_id: str | None = None
    region: str | None = msgspec.field(name="MSG_REGION", default=None)


@request(RequestCode.RECALL_MESSAGE, answer=RecallAnswer)
class RecallMessage(Request, rename="camel"):
    """Never deliver the message of this handle."""

    topic: str
    recall_handle: str | None = None
    producer_group: str | None = None
    bname: str | None = None
