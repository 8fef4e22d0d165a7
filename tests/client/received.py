"""Messages as a pull brings them, made by hand."""

from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import StoredRecord

HOST = bytes([10, 0, 0, 2, 0, 0, 42, 159])


def received(
    offset: int,
    body: bytes = b"x",
    topic: str = "orders",
    reconsume_times: int = 0,
    log_position: int = 0,
    **properties: str,
) -> ReceivedMessage:
    text = format_properties(properties)
    record = StoredRecord(
        200, 0, 0, log_position, 0, offset, 0, 0, 0, 0, reconsume_times, 0, 0, HOST, topic, text, body
    )  # fmt: skip
    return ReceivedMessage(record, "broker-a", HOST)


def several(*offsets: int) -> list[ReceivedMessage]:
    return [received(offset) for offset in offsets]
