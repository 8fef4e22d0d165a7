"""Results of the store: the outcome of an append, the result of a read."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs


class NotForGood(StorageError):
    """The change was made, but a power loss may undo it."""


class NoFolderName(StorageError):
    """A topic can't have queues: its name can't be the name of a folder."""


class PutOutcome(Enum):
    """The outcome of an append. RocketMQ: PutMessageStatus."""

    STORED = "STORED"
    FLUSH_TIMEOUT = "FLUSH_TIMEOUT"
    """Stored and visible, but the disk has not confirmed it in time (RocketMQ: FLUSH_DISK_TIMEOUT)."""
    COPY_TIMEOUT = "COPY_TIMEOUT"
    """Stored and visible, but not enough slaves have confirmed it in time (RocketMQ: FLUSH_SLAVE_TIMEOUT)."""
    FAILED = "FAILED"
    """Nothing was stored; `MessageStore.failure` has the reason."""


OnStored: TypeAlias = Callable[[Any, int, int, PutOutcome], None]
"""Called once per append with `(context, queue_offset, log_position, outcome)`. It must not raise."""


Settlement: TypeAlias = tuple[OnStored, Any, int, int, bool]
"""An append whose caller waits for the outcome: on_stored, context, queue_offset, log_position, wait_flush.

Without `wait_flush` it is settled when its burst is written."""


def settle(settlements: list[Settlement], outcome: PutOutcome) -> None:
    """Call `on_stored` of each append, in the order of the appends."""
    for on_stored, context, queue_offset, log_position, _ in settlements:
        on_stored(context, queue_offset, log_position, outcome)


class ReadStatus(Enum):
    """The status of a read. RocketMQ: GetMessageStatus. The names are the remarks in RocketMQ's responses."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class ReadResult(NamedTuple):
    """The messages that a read found, and their places. RocketMQ: GetMessageResult."""

    status: ReadStatus
    next_offset: int
    """The offset of the next read."""
    min_offset: int
    max_offset: int
    positions: Sequence[int]
    sizes: Sequence[int]
    """With `positions`, the place of each record in the log. `MessageStore.records` returns the records."""
    record_bytes: int
    first_offset: int
    """Queue offset of the first record."""
    end_offset: int
    """The queue offset after the last record. `next_offset` may be larger, because it is after rejected messages."""
    slices: list[bytes] | None = None
    """The records, if they had to be read for a check: one by one, or all in one slice."""
    offsets: Sequence[int] | None = None
    """The queue offset of each record; None if the offsets are consecutive from `first_offset` on."""

    @property
    def record_count(self) -> int:
        return len(self.positions)


class OldSegment(NamedTuple):
    """The oldest part of the log, which retention may remove."""

    end_position: int
    newest_ms: MessageMs
    """The stored time of the first record after this part; no message in this part was stored later."""


class Entry(NamedTuple):
    """A queue's entry for one of its messages."""

    log_position: int
    record_bytes: int
    tags_code: int
