"""How long a program that doesn't end may consume what is left."""

from staticfire.chaos.settling_time import SettlingTime


def test_it_is_over_at_once_if_nothing_is_left() -> None:
    assert SettlingTime(1_000).is_over(left=0, now_ms=5_000)


def test_it_is_over_one_settling_time_after_the_last_progress() -> None:
    settling = SettlingTime(1_000)
    assert not settling.is_over(left=3, now_ms=5_000)
    assert not settling.is_over(left=2, now_ms=5_900)
    assert not settling.is_over(left=2, now_ms=6_899)
    assert settling.is_over(left=2, now_ms=6_900)


def test_more_that_is_left_is_no_progress() -> None:
    settling = SettlingTime(1_000)
    assert not settling.is_over(left=2, now_ms=5_000)
    assert not settling.is_over(left=9, now_ms=5_500)
    assert not settling.is_over(left=2, now_ms=5_999)
    assert settling.is_over(left=8, now_ms=6_000)


def test_without_settling_time_it_is_over_at_the_first_look() -> None:
    assert SettlingTime(0).is_over(left=1, now_ms=5_000)
