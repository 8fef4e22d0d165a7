"""Parts of the dead letters of several queues, compared with a list that is sorted as a whole."""

from bisect import bisect_left
from math import log2

from hypothesis import given, strategies as st

from staticfire.client.admin.letter_pages import LetterRange, chosen_part, letter_range

QUEUES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=200).map(sorted), min_size=1, max_size=4)


class Letters:
    """Queues of letters, by the time of each death. It counts what is requested."""

    def __init__(self, queues: list[list[int]], damaged: bool = False) -> None:
        self.queues = queues
        self.damaged = damaged
        self.steps = 0

    async def offsets_at(self, time_ms: int) -> list[int]:
        self.steps += 1
        return [bisect_left(times, time_ms) for times in self.queues]

    async def time_at(self, queue: int, offset: int) -> int | None:
        return None if self.damaged else self.queues[queue][offset]

    async def range(self, begin: int, count: int) -> LetterRange:
        ends = [(0, len(times)) for times in self.queues]
        return await letter_range(ends, begin, count, self.offsets_at, self.time_at)

    def read(self, part: LetterRange) -> list[tuple[int, int, int]]:
        """Return what is read of a range, in order."""
        places = enumerate(zip(self.queues, part.starts, part.stops, strict=True))
        return sorted(
            (times[offset], queue, offset) for queue, (times, start, stop) in places for offset in range(start, stop)
        )


@given(QUEUES, st.integers(0, 900), st.integers(1, 60), st.booleans())
async def test_a_part_is_that_of_the_sorted_list(queues: list[list[int]], skip: int, limit: int, newest: bool) -> None:
    whole = sorted((died, queue, offset) for queue, times in enumerate(queues) for offset, died in enumerate(times))
    begin, count = chosen_part(len(whole), limit, skip, newest)
    wanted = whole[max(0, len(whole) - skip - limit) : max(0, len(whole) - skip)] if newest else whole[skip:][:limit]
    assert count == len(wanted)
    if not count:
        return
    letters = Letters(queues)
    part = await letters.range(begin, count)
    read = letters.read(part)
    assert read[part.skip : part.skip + part.wanted] == wanted
    assert len(read) <= count + 2 * (32 + count // 4)
    assert letters.steps <= 8 * len(queues) * (1 + log2(len(whole)))


async def test_few_steps_are_needed_where_queues_grow_at_the_same_pace() -> None:
    letters = Letters([list(range(queue, 100_000, 8)) for queue in range(8)])
    part = await letters.range(50_000, 50)
    assert letters.read(part)[part.skip][0] == 50_000
    assert letters.steps <= 4  # Two for each end.


async def test_letters_of_one_moment_are_in_the_order_of_their_queues() -> None:
    letters = Letters([[7] * 1_000, [7] * 1_000])
    part = await letters.range(1_200, 50)
    read = letters.read(part)
    assert read[part.skip : part.skip + part.wanted] == [(7, 1, offset) for offset in range(200, 250)]
    assert len(read) <= 50 + 2 * 44


async def test_letters_whose_time_cant_be_read_are_counted() -> None:
    letters = Letters([list(range(1_000)), list(range(1_000))], damaged=True)
    part = await letters.range(1_200, 50)
    assert len(letters.read(part)) == part.skip + part.wanted


@given(st.lists(st.lists(st.integers(1, 40), min_size=100, max_size=200), min_size=2, max_size=4))
async def test_times_that_arent_in_order_end_the_search(queues: list[list[int]]) -> None:
    part = await Letters(queues).range(120, 50)
    assert 0 <= part.skip <= 44
    assert sum(stop - start for start, stop in zip(part.starts, part.stops, strict=True)) >= part.skip + 50
