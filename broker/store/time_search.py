"""Finding an offset by time. RocketMQ: ConsumeQueue.getOffsetInQueueByTime, BoundaryType.

Stored times never go down along a queue, so a binary search finds the place. A message that can't be read counts as
stored when the next one was that can; where there is none, later than any time. So a search by time never passes over
a message that can be read: of a damaged part it gives an offset before it.
"""

from collections.abc import Callable, Iterator
from enum import Enum

from staticfire.protocol.times import MessageMs


class Boundary(Enum):
    """Which message is meant when several, or none, were stored at the given time."""

    LOWER = "lower"
    """The first one stored then or later; the end of the queue when all are older."""
    UPPER = "upper"
    """The last one stored then or earlier; the first when all are newer."""


def search_offset(
    min_offset: int,
    max_offset: int,
    message_ms: MessageMs,
    boundary: Boundary,
    next_stored: Callable[[int], tuple[int, int] | None],
) -> int:
    """Return the offset in [min_offset, max_offset] that belongs to a time; of an empty queue, 0.

    `next_stored` gives the first message from an offset on that can be read: its offset, and when it was stored.
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
    """Yield offsets to look at for a message that can be read: so many, then some of the rest, and the last one."""
    at, step = min(offset + count, end), 1
    yield from range(offset, at)
    while at < end:
        yield at
        at, step = at + step, 2 * step
    yield end - 1
