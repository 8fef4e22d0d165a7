"""Up to where two logs are the same."""

import pytest

from staticfire.broker.replication.epochs import begun, common_end, cut
from staticfire.protocol.requests.replication import Epoch

ONE, TWO, THREE = Epoch(1, 0), Epoch(2, 100), Epoch(3, 100)

pytestmark = pytest.mark.row("P7")


@pytest.mark.parametrize(
    ("own", "own_end", "others", "other_end", "common"),
    [
        ([ONE], 50, [ONE], 30, 30),
        ([ONE], 30, [ONE], 50, 30),
        ([ONE, TWO], 150, [ONE], 130, 100),
        ([ONE, TWO], 150, [ONE], 90, 90),
        ([ONE, TWO], 150, [ONE, TWO], 120, 120),
        ([ONE, THREE], 150, [ONE, TWO], 150, 100),
        ([ONE, Epoch(4, 60)], 150, [ONE, TWO], 150, 60),
        ([Epoch(5, 0)], 150, [ONE, TWO], 150, 0),
        ([ONE], 50, [], 0, 0),
    ],
)
def test_two_logs_are_the_same_up_to_their_last_common_epoch(
    own: list[Epoch], own_end: int, others: list[Epoch], other_end: int, common: int
) -> None:
    assert common_end(own, own_end, others, other_end) == common
    assert common_end(others, other_end, own, own_end) == common


def test_an_epoch_begins_where_the_log_ends() -> None:
    assert begun([ONE], 2, 100, 7_000) == [ONE, Epoch(2, 100, 0, 7_000)]
    assert begun([ONE, TWO], 3, 100, 7_000) == [ONE, Epoch(3, 100, 0, 7_000)]
    assert cut([ONE, TWO], 100) == [ONE]
    assert cut([ONE, TWO], 0) == []
