"""Durations and moments as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.durations import (
    DURATION_MS_MAX,
    format_duration,
    format_moment,
    ms_of,
    parse_duration,
    parse_moment,
)
from staticfire.protocol.errors import UsageError

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2h", 2 * HOUR_MS),
        ("+2h", 2 * HOUR_MS),
        ("90s", 90_000),
        ("1h30m", HOUR_MS + 1_800_000),
        (" 1h 30m ", HOUR_MS + 1_800_000),
        ("500ms", 500),
        ("2d", 48 * HOUR_MS),
        ("1m500ms", 60_500),
        ("1.5h", HOUR_MS + 1_800_000),
        ("0.25s", 250),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "+", "2", "2 hours", "h", "30m1h", "1h1h", "-2h", "1e3s", "٢h", "1,5h", "2H"])
def test_an_invalid_duration_is_refused_with_valid_ones(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration; write 2h, 1h30m, 90s, 500ms or 2d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "words"), [("0.0001s", "the smallest unit is a millisecond"), ("36526d", "over the limit of 36525d")]
)
def test_impossible_durations_say_why(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_duration(text)


@given(st.integers(0, DURATION_MS_MAX))
def test_every_duration_is_read_as_it_was_written(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


def test_durations_are_written_without_what_is_zero() -> None:
    assert [format_duration(ms) for ms in (0, 61_000, 2 * HOUR_MS, -1_500)] == ["0s", "1m1s", "2h", "-1s500ms"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T13:30:00Z",
        "2026-11-21T13:30:00",
        "2026-11-21 14:30:00+01:00",
        "20261121T133000Z",
        " 1795267800000 ",
    ],
)
def test_moments_are_read(text: str) -> None:
    assert parse_moment(text) == 1_795_267_800_000


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "12:00", "2026-11-21T25:00:00Z", "1" * 16])
def test_an_invalid_moment_is_refused_with_valid_ones(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write 2026-11-21T13:30:00Z, or milliseconds"):
        parse_moment(text)


@given(st.integers(0, 300_000_000_000_000))
def test_every_moment_is_read_as_it_was_written(ms: int) -> None:
    assert parse_moment(format_moment(ms)) == ms


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-14)), None])))
def test_a_datetime_is_a_whole_number_of_milliseconds(moment: datetime) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    apart = aware - datetime(1970, 1, 1, tzinfo=UTC)
    assert timedelta(0) <= apart - timedelta(milliseconds=ms_of(moment)) < timedelta(milliseconds=1)
