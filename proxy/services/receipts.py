"""Receipt handles, by which clients acknowledge messages. Pure. RocketMQ: ReceiptHandle.

    <the handle of the pop, eight parts> <log position>       separated by one space

A handle contains all that an acknowledgement needs, so any proxy accepts it, even a restarted one.
"""

from typing import NamedTuple

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.pop_handles import PopHandle, format_handle, parse_handle
from staticfire.protocol.times import MessageMs
from staticfire.proxy.services.statuses import invalid_handle, unreadable

POP_PARTS = 8
LOG_POSITION_UNKNOWN = -1
NUMBER_CHARS_MAX = 19

MessagePlace = tuple[str, int, int, int]
"""Broker name, flag of the topic, queue id, queue offset: equal in all handles of a popped message."""


class Receipt(NamedTuple):
    """A popped message, and its position in the commit log."""

    pop: PopHandle
    log_position: int

    @property
    def place(self) -> MessagePlace:
        """Return the key of the message, which is the same in all its handles."""
        pop = self.pop
        return pop.broker_name, pop.flag, pop.queue_id, pop.queue_offset

    @property
    def visible_ms(self) -> int:
        """When the message is visible again."""
        return self.pop.pop_time_ms + self.pop.invisible_ms

    def check_held(self, message_ms: MessageMs) -> None:
        """Check that the message isn't visible again yet. Raises: StatusError."""
        if self.visible_ms <= message_ms:
            raise invalid_handle("receipt handle is expired")

    def __str__(self) -> str:
        handle = format_handle(self.pop)
        return handle if self.log_position == LOG_POSITION_UNKNOWN else f"{handle} {self.log_position}"


def read_receipt(text: str) -> Receipt:
    """Parse a handle. Raises: StatusError."""
    parts = text.split(" ")
    if len(parts) < POP_PARTS:
        raise unreadable(ProtocolError(f"Parse failed, dataList size {len(parts)}"))
    try:
        pop = parse_handle(" ".join(parts[:POP_PARTS]))
    except ProtocolError as error:
        raise unreadable(error) from None
    position = parts[POP_PARTS] if len(parts) > POP_PARTS else ""
    if not position:
        return Receipt(pop, LOG_POSITION_UNKNOWN)
    if not (position.isascii() and position.isdecimal() and len(position) <= NUMBER_CHARS_MAX):
        raise unreadable(ProtocolError(f'For input string: "{position}"'))
    return Receipt(pop, int(position))
