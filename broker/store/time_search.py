"""Find an offset by time. RocketMQ: ConsumeQueue.getOffsetInQueueByTime, BoundaryType.

Stored times never decrease along a queue, so a binary search finds the offset. An unreadable message counts as stored
at the time of the next readable one; if there is none, later than any time. Therefore a search by time never skips a
readable message: in a damaged part it returns an offset before the damage.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from staticfire.protocol.times import MessageMs


class Boundary(Enum):
    """Which message to return if several, or none, were stored at the given time."""

    LOWER = "lower"
    """The first message stored then or later; the end of the queue if all are older."""
    UPPER = "upper"
    """The last message stored then or earlier; the first one if all are newer."""


def search_offset(
    min_offset: int,
    max_offset: int,
    message_ms: MessageMs,
    boundary: Boundary,
    next_stored: Callable[[int], tuple[int, int] | None],
) -> int:
    """Return the offset in [min_offset, max_offset] that corresponds to a time; `max_offset` if the queue is empty.

    `next_stored` returns the first readable message from an offset on: its offset and stored time.
    """
    if min_offset >= max_offset:
        return max_offset
    wanted_ms = message_ms if boundary is Boundary.LOWER else message_ms + 1
    low, high = min_offset, max_offset
    while low < high:
        middle = (low + high) // 2
        found = next_stored(middle)
        if found is None or found[1] >= wanted_ms:
            high = middle
        else:
            low = found[0] + 1
    return low if boundary is Boundary.LOWER else max(low - 1, min_offset)


def probes(offset: int, end: int, count: int) -> Iterator[int]:
    """Yield offsets to try for a readable message: `count` in a row, then with growing steps, then the last one."""
    at, step = min(offset + count, end), 1
    yield from range(offset, at)
    while at < end:
        yield at
        at, step = at + step, 2 * step
    yield end - 1
