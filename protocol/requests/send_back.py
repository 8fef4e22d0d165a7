"""A consumer gives back a message that it couldn't consume. RocketMQ: ConsumerSendMsgBackRequestHeader."""

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Request, request
from staticfire.protocol.numbers import Int32, Int64


@request(RequestCode.CONSUMER_SEND_MSG_BACK)
class SendBack(Request, rename="camel"):
    """Deliver the message at `offset`, a log position, again to the group.

    `delay_level`: above 0 the level; 0: the broker decides; below 0: directly to the dead letters.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    bname: str | None = None
