"""Where a queue starts."""

import pytest

from staticfire.client.offsets.consume_from import IllegalStoredOffset, Start, find_start
from staticfire.client.settings.push_settings import ConsumeFromWhere

pytestmark = pytest.mark.row("R7")

LAST, FIRST, TIMESTAMP = ConsumeFromWhere.LAST_OFFSET, ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.TIMESTAMP


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
@pytest.mark.parametrize("is_retry", [False, True])
@pytest.mark.parametrize("stored", [0, 1, 10**12])
def test_a_stored_offset_always_wins(where: ConsumeFromWhere, is_retry: bool, stored: int) -> None:
    assert find_start(where, stored, is_retry) == stored


@pytest.mark.parametrize(
    ("where", "is_retry", "start"),
    [
        (LAST, False, Start.QUEUE_END),
        (LAST, True, 0),
        (FIRST, False, 0),
        (FIRST, True, 0),
        (TIMESTAMP, False, Start.TIMESTAMP),
        (TIMESTAMP, True, Start.QUEUE_END),
    ],
)
def test_without_one_it_depends(where: ConsumeFromWhere, is_retry: bool, start: int | Start) -> None:
    assert find_start(where, -1, is_retry) == start


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
def test_below_minus_one_is_nonsense(where: ConsumeFromWhere) -> None:
    with pytest.raises(IllegalStoredOffset, match="-2"):
        find_start(where, -2, False)
