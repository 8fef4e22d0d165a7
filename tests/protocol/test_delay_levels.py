"""Delay levels: the setting, and which one a message gets."""

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.delay_levels import (
    DEFAULT_DELAY_LEVELS,
    DELAY_LEVELS_DEFAULT,
    DelayLevels,
    level_of_queue,
    queue_of_level,
    requested_level,
    retry_level,
)
from staticfire.protocol.errors import BrokerAnswer, UsageError


def test_the_18_levels_of_rocketmq() -> None:
    assert DEFAULT_DELAY_LEVELS.level_max == 18
    assert [DEFAULT_DELAY_LEVELS.delay_ms(level) for level in (1, 3, 5, 18)] == [1_000, 10_000, 60_000, 7_200_000]
    assert str(DEFAULT_DELAY_LEVELS) == DELAY_LEVELS_DEFAULT


def test_all_units() -> None:
    assert DelayLevels.parse("2s 3m  4h 5d").delays_ms == (2_000, 180_000, 14_400_000, 432_000_000)


@given(st.lists(st.integers(0, 10**6).map(lambda seconds: seconds * 1000), min_size=1))
def test_levels_come_back_from_their_text(delays_ms: list[int]) -> None:
    levels = DelayLevels(tuple(delays_ms))
    assert DelayLevels.parse(str(levels)) == levels


@pytest.mark.parametrize("text", ["", " ", "1", "s", "1x", "1s,5s", "-1s", "1.5s", "1s 2", "\u0661s", "9999999999s"])
def test_a_setting_that_is_no_list_of_delays_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="messageDelayLevel"):
        DelayLevels.parse(text)


def test_a_level_above_the_last_is_the_last_one() -> None:
    assert [DEFAULT_DELAY_LEVELS.clamp(level) for level in (-1, 0, 18, 19, 99)] == [-1, 0, 18, 18, 18]


def test_a_level_that_the_list_no_longer_has_waits_a_second() -> None:
    assert DelayLevels.parse("5s").delay_ms(2) == 1_000
    assert DelayLevels.parse("5s").delay_ms(0) == 1_000


@pytest.mark.parametrize(
    ("properties", "level"),
    [(b"", 0), (b"TAGS\x013\x02", 0), (b"DELAY\x01\x02", 0), (b"DELAY\x013\x02", 3), (b"DELAY\x01-1\x02", -1),
     (b"DELAY\x01+05\x02", 5), (b"DELAY\x012147483647\x02", 2147483647)],
)  # fmt: skip
def test_the_level_that_a_message_asks_for(properties: bytes, level: int) -> None:
    assert requested_level(properties) == level


@pytest.mark.parametrize("value", [b"x", b"3 ", b"1_0", b"3s", b"2147483648", b"\xff", "\u0663".encode(), b"9" * 5000])
def test_a_level_that_is_no_number_is_answered_with_system_error(value: bytes) -> None:
    with pytest.raises(BrokerAnswer, match="not a number") as refusal:
        requested_level(b"DELAY\x01" + value + b"\x02")
    assert refusal.value.code == 1


def test_sixteen_retries_use_levels_3_to_18() -> None:
    assert [retry_level(times) for times in range(16)] == list(range(3, 19))


def test_each_level_has_its_queue() -> None:
    assert [queue_of_level(1), queue_of_level(18), level_of_queue(0)] == [0, 17, 1]
