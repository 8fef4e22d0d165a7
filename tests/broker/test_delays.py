"""How delayed messages lie in the log: properties, marks, entries."""

import pytest
from hypothesis import given, strategies as st

from staticfire.broker.delay.level_history import LevelHistory
from staticfire.broker.delay.stored_form import MAY_WAIT, Mark, delayed, pack_mark, read_mark, real_place, tags_code_of
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from staticfire.protocol.errors import BrokerAnswer, UsageError
from staticfire.protocol.properties import DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, parse_properties
from staticfire.protocol.tags import java_hash

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@given(st.integers(1, 2**16 - 1), st.integers(0, 2**40))
def test_a_mark_is_a_number_below_zero_that_can_be_read(level: int, offset: int) -> None:
    number = pack_mark(level, offset)
    assert -(2**63) <= number < 0
    assert read_mark(number) == Mark(level, offset)


@pytest.mark.parametrize("position", [0, 1, 2**63 - 1])
def test_a_position_is_no_mark(position: int) -> None:
    assert read_mark(position) is None


def test_a_second_delay_replaces_the_place_of_the_first() -> None:
    first = delayed(b"DELAY\x013\x02TAGS\x01a\x02", "orders", 2, DEFAULT_DELAY_LEVELS)
    assert first is not None
    assert real_place(first.properties) == ("orders", 2)
    second = delayed(first.properties, "%RETRY%billing", 0, DEFAULT_DELAY_LEVELS)
    assert second is not None
    assert real_place(second.properties) == ("%RETRY%billing", 0)
    assert second.properties.count(b"REAL_TOPIC") == second.properties.count(b"REAL_QID") == 1
    assert parse_properties(second.properties)["TAGS"] == "a"


@pytest.mark.parametrize(
    ("requested", "level", "stored"), [("3", 3, "3"), ("+3", 3, "+3"), ("18", 18, "18"), ("19", 18, "18")]
)
def test_a_level_above_the_last_counts_as_the_last(requested: str, level: int, stored: str) -> None:
    waits = delayed(f"DELAY\x01{requested}\x02".encode(), "orders", 0, DEFAULT_DELAY_LEVELS)
    assert waits is not None
    assert (waits.level, parse_properties(waits.properties)["DELAY"]) == (level, stored)


def test_properties_that_get_too_long_are_refused() -> None:
    properties = b"DELAY\x013\x02x\x01" + b"x" * 32_730 + b"\x02"
    with pytest.raises(BrokerAnswer) as refused:
        delayed(properties, "t" * 127, 0, DEFAULT_DELAY_LEVELS)
    assert refused.value.code == 13


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"REAL_TOPIC\x01orders\x02",
        b"REAL_QID\x010\x02",
        b"REAL_TOPIC\x01orders\x02REAL_QID\x01x\x02",
        b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02",
    ],
)
def test_a_message_without_a_place_cant_be_delivered(properties: bytes) -> None:
    assert real_place(properties) is None


def test_entries_are_rebuilt_from_records() -> None:
    code = tags_code_of(LevelHistory(DEFAULT_DELAY_LEVELS), lambda _properties, _stored_ms: 0)
    assert code(SCHEDULE, b"TAGS\x01a\x02DELAY\x012\x02", 1_000, 0) == 6_000
    assert code(SCHEDULE, b"DELAY\x01+2\x02", 1_000, 0) == 6_000
    assert code(SCHEDULE, b"DELAY\x0199\x02", 1_000, 0) == 7_201_000
    assert code(SCHEDULE, b"DELAY\x01x\x02", 1_000, 0) == 0
    assert code("orders", b"TAGS\x01a\x02DELAY\x012\x02", 1_000, 0) == java_hash("a")


def test_entries_have_the_delays_of_the_levels_at_their_position() -> None:
    history = LevelHistory(DelayLevels.parse("1s 5s"))
    assert history.begin(0, 0) is False
    for end, levels in ((1_000, "1s 1h"), (2_000, "3s"), (2_000, "1s 1h"), (3_000, "3s")):
        history = after_restart(history, levels, end=end)
    code = tags_code_of(history, lambda _properties, _stored_ms: 0)
    expected = {0: 5_000, 999: 5_000, 1_000: 3_600_000, 2_999: 3_600_000, 3_000: 3_000, 9_999: 3_000}
    assert {position: code(SCHEDULE, b"DELAY\x012\x02", 0, position) for position in expected} == expected


def test_levels_are_forgotten_with_their_records() -> None:
    history = LevelHistory(DelayLevels.parse("1s"))
    for end, levels in ((1_000, "2s"), (2_000, "3s"), (3_000, "4s")):
        history = after_restart(history, levels, end=end)
    history = after_restart(history, "4s", 1_500, end=2_500)  # A loss of power took what was stored with 4 s.
    delays = {position: history.at(position).delay_ms(1) for position in (1_500, 1_999, 2_000, 2_499, 2_500)}
    assert delays == {1_500: 2_000, 1_999: 2_000, 2_000: 3_000, 2_499: 3_000, 2_500: 4_000}
    assert history.snapshot().count(b"messageDelayLevel") == 3
    assert after_restart(history, "5s", end=0).snapshot().count(b"messageDelayLevel") == 1


def after_restart(history: LevelHistory, levels: str, begin: int = 0, *, end: int) -> LevelHistory:
    """Return the history of a broker with these levels whose log begins and ends there."""
    restarted = LevelHistory(DelayLevels.parse(levels))
    restarted.restore(history.snapshot())
    before = restarted.snapshot()
    assert restarted.begin(begin, end) == (restarted.snapshot() != before)
    return restarted


@pytest.mark.parametrize(
    "data",
    [
        b'{"levels": []}',
        b'{"levels": [{"fromPosition": 0, "messageDelayLevel": "soon"}]}',
        b'{"levels": [{"fromPosition": 9, "messageDelayLevel": "1s"}, {"fromPosition": 8, "messageDelayLevel": "2s"}]}',
    ],
)
def test_an_impossible_history_of_levels_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, UsageError)):
        LevelHistory(DEFAULT_DELAY_LEVELS).restore(data)


@pytest.mark.parametrize("name", [DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS])
def test_the_one_search_of_the_hot_path_finds_whatever_asks_to_wait(name: str) -> None:
    assert MAY_WAIT in name
