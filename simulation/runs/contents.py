"""Reads the content of a message that a member gets, or that a queue has, for checkers."""

from staticfire.client.cluster.pull_answers import expand_body
from staticfire.protocol.checksums import crc32
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.runtime.machine import Clock
from staticfire.simulation.checkers.events import Content

_NO_HOST = bytes(8)


def content_of(message: ReceivedMessage, topic: str, clock: Clock) -> Content:
    """Return the content of a received message. `topic`: as its program sees it, with the namespace."""
    born_ms = clock.uptime_ms() - (clock.wall_ms() - message.born_ms)
    return Content(topic, message.tags or "", crc32(message.body), born_ms, message.message_id)


def content_in(record: StoredRecord, clock: Clock) -> Content:
    """Return the content of a stored message."""
    message = ReceivedMessage(record, "", _NO_HOST)
    if record.sys_flag & COMPRESSED:
        expand_body(message)
    return content_of(message, record.topic, clock)
