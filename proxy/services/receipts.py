"""Receipt handles: what a client acknowledges a message by. Pure. RocketMQ: ReceiptHandle.

    <the handle of the pop, eight parts> <log position>       separated by one space

Everything that an acknowledgement needs stands in it, so that any proxy takes it, a restarted one as well.
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
"""Broker name, flag of the topic, queue id, queue offset: the same in all handles of a popped message."""


class Receipt(NamedTuple):
    """A popped message, and where it lies."""

    pop: PopHandle
    log_position: int

    @property
    def place(self) -> MessagePlace:
        """Return by what the message is found again, whatever its handle became."""
        pop = self.pop
        return pop.broker_name, pop.flag, pop.queue_id, pop.queue_offset

    @property
    def visible_ms(self) -> int:
        """When it comes again."""
        return self.pop.pop_time_ms + self.pop.invisible_ms

    def check_held(self, message_ms: MessageMs) -> None:
        """Check that the message hasn't come again meanwhile. Raises: StatusError."""
        if self.visible_ms <= message_ms:
            raise invalid_handle("receipt handle is expired")

    def __str__(self) -> str:
        handle = format_handle(self.pop)
        return handle if self.log_position == LOG_POSITION_UNKNOWN else f"{handle} {self.log_position}"


def read_receipt(text: str) -> Receipt:
    """Return what a handle says. Raises: StatusError."""
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
