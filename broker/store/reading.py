"""Read messages of a queue from an offset on. RocketMQ: DefaultMessageStore.getMessage, GetMessageStatus.

The statuses and the next offsets are RocketMQ's, because consumers rely on them. Not implemented: smaller responses for
records that have left the page cache (RocketMQ: checkInDiskByCommitOffset).

A read uses only the queue's entries, and returns the positions of the records. Without a filter, the fast path takes
all entries at once. If there is a filter, a known unreadable record or a suspicious entry, `_read_each` checks the
entries one by one and skips LOST ones and unreadable records. At a wrong entry it ends the result, or raises WrongEntry
so that the caller repairs the entry and tries again.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from struct import Struct

from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES
from staticfire.broker.store.settings import READ_ENTRIES_MAX

# The number of entries that are checked together if one of them is wrong.
WRONG_ENTRIES_MAX = 32
# The first read takes this many entries per message, because a filter usually accepts enough of them.
LOOK_TIMES = 4


class WrongEntry(Exception):
    """The entry of a message is missing or wrong, although the message should exist."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


_iter_entries = ENTRY.iter_unpack
_NOTHING: tuple[int, ...] = ()


def read_queue(
    lowest_position: int,
    queue: Queue,
    offset: int,
    messages_max: int,
    bytes_max: int,
    wanted: Callable[[int], bool] | None,
    in_order: bool = True,
) -> ReadResult:
    """Return the positions of records from `offset` on whose tags code is wanted: at least one, whatever its size.

    Records below `lowest_position` in the log are gone. `in_order`: if a record's position is before the end of the
    previous one, one of the two entries is wrong, and no message may be skipped because of them. Raises: OSError,
    WrongEntry.
    """
    min_offset = queue.min_offset
    max_offset = queue.max_offset
    if offset >= max_offset or offset < min_offset:
        return _outside(offset, min_offset, max_offset)
    if wanted is None and not queue.unreadable:
        # Nearly always all entries can be used. Checking 32 of them one by one takes four times as long. Positions
        # increase, so checking the first one is enough.
        count = min(messages_max, max_offset - offset)
        entries = queue.entry_bytes(offset, count)
        if len(entries) == count * ENTRY_BYTES:
            numbers = _unpack_of(count)(entries)
            positions, sizes = numbers[0::3], numbers[1::3]
            total = sum(sizes)
            if positions[0] >= lowest_position and min(sizes) > 0:
                if total > bytes_max:
                    count = max(1, bisect_right(tuple(accumulate(sizes)), bytes_max))
                    positions, sizes = positions[:count], sizes[:count]
                    total = sum(sizes)
                end = offset + count
                return ReadResult(ReadStatus.FOUND, end, min_offset, max_offset, positions, sizes, total, offset, end)
    return _read_each(lowest_position, queue, offset, messages_max, bytes_max, wanted, in_order)


def _read_each(
    lowest_position: int,
    queue: Queue,
    offset: int,
    messages_max: int,
    bytes_max: int,
    wanted: Callable[[int], bool] | None,
    in_order: bool,
) -> ReadResult:
    """Do `read_queue`, entry by entry."""
    min_offset, max_offset, unreadable = queue.min_offset, queue.max_offset, queue.unreadable
    end = min(max_offset, offset + (messages_max if wanted is None else max(READ_ENTRIES_MAX, messages_max)))
    chosen: list[tuple[int, int, int]] = []
    at, total, removed, floor, looked_at = offset, 0, False, lowest_position, LOOK_TIMES * messages_max
    before = int(in_order and offset > min_offset and offset - 1 not in unreadable)
    while at < end:
        entries = queue.entry_bytes(at - before, min(end - at, looked_at) + before)
        rows = _iter_entries(entries)
        if before:
            floor, before = _end_of(next(rows, None), lowest_position), 0
        looked_at = READ_ENTRIES_MAX
        if not entries:
            if chosen:
                break
            raise WrongEntry(at)
        for position, size, tags_code in rows:
            if position < floor or size <= 0 or (unreadable and at in unreadable):
                if at in unreadable or (size == 0 and position < 0):  # LOST: a start has logged it.
                    at, removed = at + 1, True
                    continue
                if chosen and (size <= 0 or floor == lowest_position):
                    end = at
                    break
                raise WrongEntry(max(at - 1, min_offset) if size > 0 else at)
            if in_order:
                floor = position + size
            if wanted is None or wanted(tags_code):
                if chosen and total + size > bytes_max:
                    end = at
                    break
                chosen.append((position, size, at))
                total += size
                if len(chosen) >= messages_max:
                    end = at = at + 1
                    break
            at += 1
    if not chosen:
        status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
        return _nothing(status, at, min_offset, max_offset)
    return _found(chosen, total, at, min_offset, max_offset)


def _found(
    chosen: list[tuple[int, int, int]], total: int, next_offset: int, min_offset: int, max_offset: int
) -> ReadResult:
    """Return a result with these messages, given as (log position, size, offset)."""
    positions, sizes, offsets = zip(*chosen, strict=True)
    first, end = offsets[0], offsets[-1] + 1
    gaps = offsets if end - first > len(offsets) else None
    found = ReadStatus.FOUND
    return ReadResult(found, next_offset, min_offset, max_offset, positions, sizes, total, first, end, None, gaps)


def _end_of(entry: tuple[int, ...] | None, lowest_position: int) -> int:
    """Return the end of an entry's record, or the log's start if the entry doesn't contain one."""
    if entry is None or entry[1] <= 0:
        return lowest_position
    return max(lowest_position, entry[0] + entry[1])


def _outside(offset: int, min_offset: int, max_offset: int) -> ReadResult:
    if max_offset == 0:
        status, next_offset = ReadStatus.NO_MESSAGE_IN_QUEUE, 0
    elif offset < min_offset:
        status, next_offset = ReadStatus.OFFSET_TOO_SMALL, min_offset
    elif offset == max_offset:
        status, next_offset = ReadStatus.OFFSET_OVERFLOW_ONE, offset
    else:
        status, next_offset = ReadStatus.OFFSET_OVERFLOW_BADLY, max_offset
    return _nothing(status, next_offset, min_offset, max_offset)


def _nothing(status: ReadStatus, next_offset: int, min_offset: int, max_offset: int) -> ReadResult:
    return ReadResult(status, next_offset, min_offset, max_offset, _NOTHING, _NOTHING, 0, 0, 0)


@lru_cache(maxsize=64)
def _unpack_of(count: int) -> Callable[[bytes | bytearray], tuple[int, ...]]:
    """Return a function that unpacks `count` entries into one flat tuple."""
    return Struct(">" + "qiq" * count).unpack
