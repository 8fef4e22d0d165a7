"""Messages that another broker stored, to be stored unchanged: for copies of a cluster. staticfire's own."""

from typing import Annotated, Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.numbers import Int32, Int64

IMPORT_MESSAGES_MAX = 1_024


class ImportedMessage(msgspec.Struct, array_like=True, gc=False):
    """One message of another broker. `properties` and `body` are as stored there."""

    properties: bytes
    body: bytes
    born_timestamp: Int64
    born_host: bytes
    """Packed: 8 bytes, or 20 for IPv6."""
    sys_flag: Int32 = 0
    flag: Int32 = 0
    reconsume_times: Int32 = 0


class ImportAnswer(Answer, rename="camel"):
    """The offset of the first message; the others follow it."""

    queue_offset: Int64 = -1


@request(RequestCode.IMPORT_MESSAGES, answer=ImportAnswer)
class ImportMessages(Request, rename="camel"):
    """Store messages in this queue in this order, with the properties, times and hosts that they have."""

    topic: str
    queue_id: Int32
    body_type: ClassVar[Any] = Annotated[list[ImportedMessage], msgspec.Meta(max_length=IMPORT_MESSAGES_MAX)]
    body_bytes_max: ClassVar[int | None] = FRAME_BYTES_MAX
