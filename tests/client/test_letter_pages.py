"""Parts of the dead letters of several queues, compared with a list that is sorted as a whole."""

from hypothesis import given, strategies as st

from staticfire.client.admin.letter_pages import chosen_part, letter_range

QUEUES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=20).map(sorted), min_size=1, max_size=4)


@given(QUEUES, st.integers(0, 90), st.integers(1, 30), st.booleans())
async def test_a_part_is_that_of_the_sorted_list(queues: list[list[int]], skip: int, limit: int, newest: bool) -> None:
    whole = sorted((died, queue, offset) for queue, times in enumerate(queues) for offset, died in enumerate(times))
    reads = 0

    async def offsets_at(time_ms: int) -> list[int]:
        nonlocal reads
        reads += 1
        return [sum(died < time_ms for died in times) for times in queues]

    begin, count = chosen_part(len(whole), limit, skip, newest)
    part = await letter_range([(0, len(times)) for times in queues], begin, count, offsets_at)
    found = sorted(
        (died, queue, offset)
        for queue, (times, start) in enumerate(zip(queues, part.starts, strict=True))
        for offset, died in enumerate(times)
        if start <= offset < start + part.skip + limit
    )
    wanted = whole[max(0, len(whole) - skip - limit) : max(0, len(whole) - skip)] if newest else whole[skip:][:limit]
    assert found[part.skip : part.skip + part.wanted] == wanted
    assert reads <= 43
