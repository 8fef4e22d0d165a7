"""A part of the dead letters in the order in which they died, without reading all letters before it.

In one queue the order is that of the offsets. With several, a moment is searched before which as many letters died as
must be left out. Brokers know for each moment the offset of the first message that was stored then or later. So each
step reads when one letter died, the pivot, and requests the offsets at this millisecond and at the next one: all
letters before the first died earlier, all from the second on died later. The pivot is in the queue of which most
letters are still in question, as far in as the wanted place is among all of them: queues mostly grow at the same pace,
so two or three steps are enough. Every second step takes the letter in the middle instead, as a binary search does, so
that other queues don't take many more.

The search ends as soon as only a few letters too many would be read: they cost less than another step. Letters that
died in the same millisecond are in the order of their queues and offsets.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

# How many letters more than wanted are read, at each end, rather than searching on: these, and a part of the wanted.
SPARE, SPARE_PART = 32, 4

OffsetsAt = Callable[[int], Awaitable[list[int]]]
"""Returns the offset of the first letter of each queue that died at a time or later."""
TimeAt = Callable[[int, int], Awaitable[int | None]]
"""Returns when the letter died that is in a queue, by its index, at an offset; None if it can't be read."""


class LetterRange(NamedTuple):
    """What each queue is read from and up to, how many of what was read to skip, and how many are wanted."""

    starts: list[int]
    stops: list[int]
    skip: int
    wanted: int


class Cut(NamedTuple):
    """The offset in each queue from which on letters follow a moment, and how many letters precede it."""

    offsets: list[int]
    before: int


def chosen_part(total: int, limit: int, skip: int, newest: bool) -> tuple[int, int]:
    """Return how many of all letters, oldest first, precede the part, and its size. `skip`: on the wanted side."""
    if newest:
        begin = max(0, total - skip - limit)
        return begin, max(0, total - skip - begin)
    return skip, max(0, min(limit, total - skip))


async def letter_range(
    ends: Sequence[tuple[int, int]], begin: int, count: int, offsets_at: OffsetsAt, time_at: TimeAt
) -> LetterRange:
    """Return what to read. `ends`: the first and the next offset of each queue.

    `begin`: how many letters precede the wanted ones, over all queues. `count`: how many are wanted; they exist.
    """
    if len(ends) == 1:
        first = ends[0][0]
        return LetterRange([first + begin], [first + begin + count], 0, count)
    search = _Search(ends, offsets_at, time_at)
    spare = SPARE + count // SPARE_PART
    start = await search.cut(max(0, begin - spare), begin)
    stop = await search.cut(begin + count, begin + count + spare)
    return LetterRange(start.offsets, stop.offsets, begin - start.before, count)


class _Search:
    """Searches moments in the queues of one group."""

    def __init__(self, ends: Sequence[tuple[int, int]], offsets_at: OffsetsAt, time_at: TimeAt) -> None:
        self._firsts = [first for first, _ in ends]
        self._ends = [end for _, end in ends]
        self._offsets_at = offsets_at
        self._time_at = time_at

    async def cut(self, least: int, most: int) -> Cut:
        """Return a cut that is preceded by `least` to `most` letters."""
        low, high = self._inside(self._firsts), self._inside(self._ends)
        step = 0
        while low.before < least and high.before > most:
            begin, end = await self._around_pivot(low, high, (least + most) // 2 if step % 2 == 0 else None)
            if begin.before > most:
                high = begin
            elif end.before < least:
                low = end
            else:
                return _in_order(begin, end, max(least, begin.before))
            step += 1
        return low if low.before >= least else high

    async def _around_pivot(self, low: Cut, high: Cut, wanted: int | None) -> tuple[Cut, Cut]:
        """Return the cuts before and after the letters that died when a pivot between two cuts did.

        If it can't be read, return the same two cuts: then the letters between them are counted in their order.
        """
        sizes = [end - begin for begin, end in zip(low.offsets, high.offsets, strict=True)]
        size = max(sizes)
        queue = sizes.index(size)
        place = size // 2 if wanted is None else size * (wanted - low.before) // (high.before - low.before)
        time_ms = await self._time_at(queue, low.offsets[queue] + min(place, size - 1))
        if time_ms is None:
            return low, high
        found = await asyncio.gather(self._offsets_at(time_ms), self._offsets_at(time_ms + 1))
        begin, end = (self._inside(offsets, low, high) for offsets in found)
        # Otherwise times aren't in order, as after the clock of a RocketMQ's machine was set back.
        is_nearer = begin.before < high.before and end.before > low.before
        return (begin, end) if is_nearer else (low, high)

    def _inside(self, offsets: Sequence[int], low: Cut | None = None, high: Cut | None = None) -> Cut:
        """Return a cut. Letters that were added or removed meanwhile don't move it beyond two others."""
        least = self._firsts if low is None else low.offsets
        most = self._ends if high is None else high.offsets
        inside = [min(max(one, first), end) for one, first, end in zip(offsets, least, most, strict=True)]
        return Cut(inside, sum(inside) - sum(self._firsts))


def _in_order(low: Cut, high: Cut, before: int) -> Cut:
    """Return the cut that is preceded by this number of letters if all between two others died at the same time.

    Then letters are in the order of their queues and offsets.
    """
    left = before - low.before
    offsets = []
    for begin, end in zip(low.offsets, high.offsets, strict=True):
        taken = min(left, end - begin)
        left -= taken
        offsets.append(begin + taken)
    return Cut(offsets, before)
