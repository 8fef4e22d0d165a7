"""What comes back from the store: how an append ended, what a read found."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs


class NotForGood(StorageError):
    """It has happened, and may not have after a loss of power."""


class PutOutcome(Enum):
    """How an append ended. RocketMQ: PutMessageStatus."""

    STORED = "STORED"
    FLUSH_TIMEOUT = "FLUSH_TIMEOUT"
    """Stored and visible, but the disk has not confirmed it in time (RocketMQ: FLUSH_DISK_TIMEOUT)."""
    FAILED = "FAILED"
    """Nothing was stored; `MessageStore.failure` says why."""


OnStored: TypeAlias = Callable[[Any, int, int, PutOutcome], None]
"""Called once per append with `(context, queue_offset, log_position, outcome)`. It must not raise."""


Settlement: TypeAlias = tuple[OnStored, Any, int, int, bool]
"""on_stored, context, queue_offset, log_position, wait_flush: an append whose end somebody waits for."""


def settle(settlements: list[Settlement], outcome: PutOutcome) -> None:
    """Call back every one of them, in the order of their appends."""
    for on_stored, context, queue_offset, log_position, _ in settlements:
        on_stored(context, queue_offset, log_position, outcome)


class ReadStatus(Enum):
    """RocketMQ: GetMessageStatus. The names are the remarks of its answers."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class ReadResult(NamedTuple):
    """What a read found, and where. RocketMQ: GetMessageResult."""

    status: ReadStatus
    next_offset: int
    """Where to read on."""
    min_offset: int
    max_offset: int
    positions: Sequence[int]
    sizes: Sequence[int]
    """Of each record: where in the log it is. `MessageStore.records` and `each_record` give them."""
    record_bytes: int
    first_offset: int
    """Queue offset of the first record."""
    end_offset: int
    """The queue offset behind the last record; `next_offset` may be behind others that weren't wanted."""
    slices: list[bytes] | None = None
    """The records, where they were read to be checked: one by one, or all in one."""
    offsets: Sequence[int] | None = None
    """The queue offset of each record; None where they follow one another from `first_offset` on."""

    @property
    def record_count(self) -> int:
        return len(self.positions)


class OldSegment(NamedTuple):
    """The oldest part of the log, which retention may remove."""

    end_position: int
    newest_ms: MessageMs
    """None of its messages was stored later: when the record behind it was."""


class Entry(NamedTuple):
    """What a queue knows of one of its messages."""

    log_position: int
    record_bytes: int
    tags_code: int
