"""Which messages are popped, in short: runs of offsets."""

from staticfire.broker.pop.in_flight import CheckPoint, joined_runs


def test_messages_side_by_side_are_a_run_whichever_pop_took_them() -> None:
    check_points = [
        CheckPoint(7, 1, 0b1, 9, 1),
        CheckPoint(0, 1, 0b1011, 9, 1),
        CheckPoint(4, 2, 0b11, 9, 2),
        CheckPoint(5, 3, 0b1, 9, 2),
        CheckPoint(100, 3, 1 << 70 | 1 << 69, 9, 2),
    ]
    assert joined_runs(check_points) == [[0, 1], [3, 5], [7, 7], [169, 170]]
    assert joined_runs([]) == []
