"""What one does with message time in one word."""

import pytest

from staticfire.protocol.clock_words import clock_text, parse_clock_words
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clock import Clock, ClockReading


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("+2h", Clock("advance", by_ms=7_200_000)),
        ("90s", Clock("advance", by_ms=90_000)),
        ("2026-11-21T13:30:00Z", Clock("advance", to_ms=1_795_267_800_000)),
        ("1795267800000", Clock("advance", to_ms=1_795_267_800_000)),
        ("freeze", Clock("freeze")),
        (" Run ", Clock("run")),
        ("skip", Clock("skip")),
        ("now", Clock("now")),
        ("60x", Clock("scale", rate=60.0)),
        ("0.5x", Clock("scale", rate=0.5)),
    ],
)
def test_words_are_requests(text: str, request_: Clock) -> None:
    assert parse_clock_words(text) == request_


@pytest.mark.parametrize("text", ["", "-2h", "+2 fortnights", "x", "advance", "60 x", "1e9x", "nowish"])
def test_other_words_get_a_list_of_the_valid_ones(text: str) -> None:
    with pytest.raises(UsageError, match="is not an operation of the clock; write \\+2h, freeze, run"):
        parse_clock_words(text)


def test_a_clock_shows_its_pace_and_its_time_twice() -> None:
    assert clock_text(ClockReading(7, "frozen", 0.0, 1_795_267_800_000)) == (
        "frozen 2026-11-21T13:30:00.000Z 1795267800000"
    )
    assert clock_text(ClockReading(8, "scaled", 60.0, 1_795_267_800_000)).startswith("60x ")
