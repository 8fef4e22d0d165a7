"""Another try, or the dead letters."""

import pytest

from staticfire.broker.groups.retries import is_dead_on_arrival, level_after_failure, reconsume_times_max
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from staticfire.protocol.requests.groups import SubscriptionGroupConfig


@pytest.mark.row("A7")
def test_16_retries_take_4_hours_45_minutes_40_seconds() -> None:
    levels = [level_after_failure(times, 16, 0) for times in range(17)]
    assert levels == [*range(3, 19), None]
    assert sum(DEFAULT_DELAY_LEVELS.delay_ms(level) for level in levels if level) == ((4 * 60 + 45) * 60 + 40) * 1000


@pytest.mark.row("A5")
@pytest.mark.parametrize(
    ("times", "times_max", "requested", "level"),
    [(0, 16, 5, 5), (15, 16, 1, 1), (16, 16, 1, None), (0, 16, -1, None), (0, 0, 3, None), (0, -1, 3, None)],
)
def test_what_a_consumer_sends_back(times: int, times_max: int, requested: int, level: int | None) -> None:
    assert level_after_failure(times, times_max, requested) == level


@pytest.mark.row("A5")
@pytest.mark.parametrize(
    ("requested", "version", "expected"), [(3, 479, 3), (3, 121, 3), (3, 120, 16), (None, 479, 16), (0, 479, 0)]
)
def test_how_often_a_message_comes_back(requested: int | None, version: int, expected: int) -> None:
    assert reconsume_times_max(SubscriptionGroupConfig("billing"), requested, version) == expected


def test_what_a_client_sends_to_the_retry_topic_has_been_counted_already() -> None:
    assert not is_dead_on_arrival(16, 16, False)
    assert is_dead_on_arrival(17, 16, False)
    assert is_dead_on_arrival(0, 16, True)
