"""What the sink sends: the message of a row, or why there is none. Needs neither Spark nor Arrow. Pure."""

from typing import NamedTuple

from staticfire.protocol.errors import UsageError
from staticfire.protocol.messages import Message


class RowMessage(NamedTuple):
    """The message of a row, and where to send it."""

    message: Message
    queue: int | None = None
    """The index among the queues of its topic, which are sorted by broker and number."""
    ordering_key: str | None = None


class RowError(UsageError):
    """A row can't be sent as a message."""
