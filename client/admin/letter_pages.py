"""A part of the dead letters in the order in which they died, without reading all letters before it.

In one queue the order is that of the offsets. With several, the time is searched before which as many letters died as
must be skipped: brokers know for each time the offset of the first message that was stored then or later.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

# Times are in milliseconds since 1970; this is in the year 2248.
TIME_MS_MAX = 1 << 43

OffsetsAt = Callable[[int], Awaitable[list[int]]]


class LetterRange(NamedTuple):
    """From which offset each queue is read, how many of the letters that were read to skip, and how many are wanted."""

    starts: list[int]
    skip: int
    wanted: int


def chosen_part(total: int, limit: int, skip: int, newest: bool) -> tuple[int, int]:
    """Return how many of all letters, oldest first, precede the part, and its size. `skip`: on the wanted side."""
    if newest:
        begin = max(0, total - skip - limit)
        return begin, max(0, total - skip - begin)
    return skip, max(0, min(limit, total - skip))


async def letter_range(ends: Sequence[tuple[int, int]], begin: int, count: int, offsets_at: OffsetsAt) -> LetterRange:
    """Return what to read. `ends`: the first and the next offset of each queue.

    `begin`: how many letters precede the wanted ones, over all queues. `offsets_at`: returns the offsets at a time.
    """
    firsts = [first for first, _ in ends]
    if len(ends) == 1:
        return LetterRange([firsts[0] + begin], 0, count)
    starts, before = firsts, 0
    low, high = 0, TIME_MS_MAX
    while low + 1 < high and before < begin:
        middle = (low + high) // 2
        found = [
            min(max(offset, first), end) for offset, (first, end) in zip(await offsets_at(middle), ends, strict=True)
        ]
        skipped = sum(found) - sum(firsts)
        if skipped <= begin:
            low, starts, before = middle, found, skipped
        else:
            high = middle
    return LetterRange(starts, begin - before, count)
