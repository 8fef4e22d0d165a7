"""Finding an offset by time. RocketMQ: ConsumeQueue.getOffsetInQueueByTime, BoundaryType.

Stored times never go down along a queue, so a binary search finds the place.
"""

from collections.abc import Callable
from enum import Enum

from staticfire.protocol.times import MessageMs


class Boundary(Enum):
    """Which message is meant when several, or none, were stored at the given time."""

    LOWER = "lower"
    """The first one stored then or later; the end of the queue when all are older."""
    UPPER = "upper"
    """The last one stored then or earlier; the first when all are newer."""


def search_offset(
    min_offset: int, max_offset: int, message_ms: MessageMs, boundary: Boundary, stored_ms_at: Callable[[int], int]
) -> int:
    """Return the offset in [min_offset, max_offset] that belongs to a time; of an empty queue, 0.

    `stored_ms_at` gives the stored time of an offset.
    """
    if min_offset >= max_offset:
        return max_offset
    wanted_ms = message_ms if boundary is Boundary.LOWER else message_ms + 1
    low, high = min_offset, max_offset
    while low < high:
        middle = (low + high) // 2
        if stored_ms_at(middle) >= wanted_ms:
            high = middle
        else:
            low = middle + 1
    return low if boundary is Boundary.LOWER else max(low - 1, min_offset)
