"""Pulls with a filter by properties: find the messages of a queue that fulfil a condition.

The entries of a queue don't contain properties, so the records must be read. They are read as for a pull without a
filter, a number at a time, and only their properties are examined. One try is limited in records, bytes and evaluated
terms. A pull that has found nothing within these limits receives the offset from which to continue, and the client
pulls again.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.broker.store.settings import READ_ENTRIES_MAX
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.limits import PULL_BYTES_MAX
from staticfire.protocol.record import peek_record, properties_at

if TYPE_CHECKING:
    from staticfire.protocol.sql92.filters import PropertyFilter

SQL92 = "SQL92"
# The characters of all compiled conditions in the cache, which then takes about 20 MB.
KEPT_CHARACTERS_MAX = 256 * 1024
# How many records are read at once if the ones before weren't wanted. The first read is as large as the request.
STEP_MAX = 256
# The record bytes that one try may read.
EXAMINED_BYTES_MAX = 8 * 1024 * 1024
# The terms that one try may evaluate, which takes 20 ms: with a condition of a thousand terms it reads fewer messages.
EXAMINED_TERMS_MAX = 65_536


class Choice:
    """A compiled condition, as pulls use it. RocketMQ: ExpressionMessageFilter."""

    def __init__(self, wanted: "PropertyFilter") -> None:
        self._evaluate = wanted.evaluate
        self._records_max = max(1, min(READ_ENTRIES_MAX, EXAMINED_TERMS_MAX // wanted.weight))

    def read(self, store: MessageStore, queue: Queue, offset: int, messages_max: int, bytes_max: int) -> ReadResult:
        """Return the wanted messages from `offset` on, as `MessageStore.read` does. Raises: StorageError, OSError."""
        taken = _Taken(max(messages_max, 1), bytes_max)
        records_left, bytes_left = self._records_max, EXAMINED_BYTES_MAX
        step = min(taken.messages_max, STEP_MAX)
        at = offset
        while True:
            found = store.read(queue, at, min(step, records_left), PULL_BYTES_MAX)
            if found.status is not ReadStatus.FOUND and at == offset:
                return found
            for data, start, size in self._wanted(store, found):
                if not taken.take(data, start, size):
                    return taken.result(peek_record(data, start).queue_offset, found)
            records_left -= found.next_offset - at
            bytes_left -= found.record_bytes
            at, step = found.next_offset, min(2 * step, STEP_MAX)
            if at >= found.max_offset or records_left <= 0 or bytes_left <= 0 or taken.is_full:
                return taken.result(at, found)

    def _wanted(self, store: MessageStore, found: ReadResult) -> list[tuple[bytes, int, int]]:
        """Return the wanted records: bytes that contain each, position in them, and size. Raises: StorageError."""
        if not found.positions:
            return []
        slices, sizes = store.records(found), found.sizes
        if len(slices) == 1:
            first = found.positions[0]
            return self.wanted_of(repeat(slices[0]), [position - first for position in found.positions], sizes)
        return self.wanted_of(slices, repeat(0), sizes)

    def wanted_of(
        self, slices: Iterable[bytes], starts: Iterable[int], sizes: Iterable[int]
    ) -> list[tuple[bytes, int, int]]:
        """Return those of the given records that are wanted."""
        evaluate, wanted = self._evaluate, []
        for place in zip(slices, starts, sizes, strict=False):
            try:
                if evaluate(b"\x02" + properties_at(place[0], place[1]) + b"\x02") is True:
                    wanted.append(place)
            except ValueError:
                pass  # NotANumber, Incomparable: the condition can't be evaluated, so the message isn't wanted.
        return wanted


class ConditionTable:
    """A cache of conditions, each compiled once."""

    def __init__(self) -> None:
        self._kept: dict[str, Choice | str] = {}
        self._kept_characters = 0

    def find(self, text: str, expression_type: str) -> Choice | str:
        """Return a compiled condition, or the text of its error."""
        kept = self._kept.get(text) if expression_type == SQL92 else None
        if kept is not None:
            return kept
        choice = make_choice(text, expression_type)
        if expression_type == SQL92 and len(text) <= KEPT_CHARACTERS_MAX:
            self._kept_characters += len(text)
            if self._kept_characters > KEPT_CHARACTERS_MAX:
                self._kept.clear()
                self._kept_characters = len(text)
            self._kept[text] = choice
        return choice


def make_choice(text: str, expression_type: str) -> Choice | str:
    """Compile a condition; return it, or the text of its error."""
    from staticfire.protocol.sql92.faults import FilterExpressionError
    from staticfire.protocol.sql92.filters import compile_filter

    if expression_type != SQL92:
        return f"unknown expression type {expression_type}: use TAG or {SQL92}"
    try:
        return Choice(compile_filter(text))
    except FilterExpressionError as fault:
        return fault.remark


class _Taken:
    """The wanted records, up to the limits of a response."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self._bytes_max = bytes_max
        self._positions: list[int] = []
        self._sizes: list[int] = []
        self._records: list[bytes] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._records) >= self.messages_max

    def take(self, data: bytes, start: int, size: int) -> bool:
        """Add a record; return False if there is no room for it."""
        if self._records and (self.is_full or self._bytes + size > self._bytes_max):
            return False
        self._records.append(data[start : start + size])
        self._positions.append(peek_record(data, start).log_position)
        self._sizes.append(size)
        self._bytes += size
        return True

    def result(self, next_offset: int, found: ReadResult) -> ReadResult:
        """Return the result of the whole read. The next read begins at `next_offset`."""
        if not self._records:
            status, first, end = ReadStatus.NO_MATCHED_MESSAGE, 0, 0
        else:
            status, first = ReadStatus.FOUND, peek_record(self._records[0]).queue_offset
            end = peek_record(self._records[-1]).queue_offset + 1
        return ReadResult(
            status, next_offset, found.min_offset, found.max_offset, self._positions, self._sizes, self._bytes,
            first, end, self._records,
        )  # fmt: skip
