"""Conditions in SQL92: what RocketMQ 5.3.3 said of a whole table, and what is worse than all of it."""

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.properties import format_properties
from staticfire.protocol.sql92.faults import FilterExpressionError
from staticfire.protocol.sql92.filters import CHARACTERS_MAX, compile_filter
from staticfire.protocol.sql92.terms import DEPTH_MAX
from tests.oracle.conditions import conditions, messages, recorded

pytestmark = pytest.mark.row("P6")

SAID = recorded()
BEHIND_A_PLUS = {"+ +"}
"""RocketMQ reports a fault behind a unary plus at the plus; here it is reported where it is."""


def judged(text: str) -> list[int] | str:
    """Return which messages of the table a condition wants, or what is wrong with it."""
    try:
        wanted = compile_filter(text)
    except FilterExpressionError as fault:
        return fault.remark
    return [number for number, properties in enumerate(messages()) if wanted.matches(properties.encode())]


def matches(text: str, properties: bytes) -> bool:
    return compile_filter(text).matches(properties)


def test_the_table_is_the_one_that_was_recorded() -> None:
    assert set(conditions()) == set(SAID)
    assert sum(isinstance(said, str) for said in SAID.values()) > 500
    assert sum(isinstance(said, list) for said in SAID.values()) > 500


def test_conditions_want_the_messages_that_rocketmq_gives() -> None:
    said = {text: said for text, said in SAID.items() if isinstance(said, list)}
    assert {text: judged(text) for text in said} == said


def test_faults_are_reported_in_rocketmqs_words() -> None:
    said = {text: said for text, said in SAID.items() if isinstance(said, str) and text not in BEHIND_A_PLUS}
    assert {text: judged(text) for text in said} == said


def test_a_fault_behind_a_plus_is_reported_with_its_place() -> None:
    assert 'Encountered "<EOF>" at line 1, column 3.' in str(judged("+ +"))


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        (b"a\x01x\x02", "x"),
        (b"a\x01x", "x"),  # some clients leave the last 02 out
        (b"b\x01y\x02a\x01x", "x"),
        (b"a\x01y\x02a\x01x\x02", "x"),
        (b"a\x01x\x02a\x01\x02", "x"),  # an empty one isn't there
        (b"a\x01x\x02a\x02", "x"),
        (b"ba\x01y\x02a\x01x\x02ca\x01z\x02", "x"),
        (b"b\x01a\x01x\x02", None),
        (b"ba\x01x\x02", None),
        (b"a\x01\x02", None),
        (b"a\x01", None),
        (b"a", None),
        (b"", None),
        (b"a\x01x\x01y\x02", "x\x01y"),
    ],
)
def test_properties_are_those_that_clients_see(properties: bytes, value: str | None) -> None:
    expected = value is not None
    assert matches("a IS NOT NULL", properties) is expected
    for test in (
        f"a = '{value}'",
        f"a IN ('{value}')",
        f"a CONTAINS '{value}'",
        f"a IN ('{value}', 'y', 'z', 'u', 'v')",
    ):
        assert matches(test, properties) is expected
    assert matches("a <> 'other'", properties) is expected
    assert not matches("a = ''", properties)


@pytest.mark.parametrize("value", ["3", "300", "0000000000003", "+3", "-3", "2147483647", "9223372036854775807"])
def test_whole_numbers_are_numbers_of_any_length(value: str) -> None:
    properties = format_properties({"a": value})
    assert matches(f"a >= {int(value)} AND a <= {int(value)}", properties)
    assert matches("a > 2147483648", properties) is (int(value) > 2147483648)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a = 'x'" + ")" * 10_000,
        "(" * 5_000 + "a = 'x'" + " OR b = 'y')" * 1_000 + ")" * 4_000,
        " OR ".join(["a = 'x'"] * 2_500),
        "+ " * 10_000 + "a = 'x'",
        "a IN (" + ",".join(["'x'"] * 7_000) + ")",
        "-" * 20_000 + "\na = 'x'",
        "/**/" * 5_000 + "a = 'x'",
        "a = 'x' AND " + "NOT " * (DEPTH_MAX - 4) + "(b = 'y')",
    ],
)
def test_long_ones_are_as_good_as_short_ones(text: str) -> None:
    assert matches(text, b"a\x01x\x02b\x01y\x02")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NOT (" * 10_000 + "a" + ")" * 10_000, f"more than {CHARACTERS_MAX}"),
        ("NOT (" * 3_000 + "a" + ")" * 3_000, f"more than {DEPTH_MAX} levels"),
        ("- " * 10_000 + "3 > a", f"more than {DEPTH_MAX} levels"),
        ("a OR (" * 4_000 + "b" + ")" * 4_000, f"more than {DEPTH_MAX} levels"),
        ("a = (b = " * 3_000 + "c" + ")" * 3_000, f"more than {DEPTH_MAX} levels"),
        ("(" * 30_000, "Encountered"),
        ("'" * 29_999, "Lexical error"),
        ("/*" * 10_000, "Lexical error"),
        ("-" * 30_000, "Encountered"),
        ("a = " + "9" * 30_000, "For input string"),
        ("a = " + "1" * 30_000 + ".", "is greater than"),
    ],
)
def test_bad_ones_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(FilterExpressionError, match=words):
        compile_filter(text)


@given(st.text(alphabet=st.sampled_from("aN(),'=<>-+/*. 139eEtT\n\u00fc\U0001f680") | st.characters(), max_size=40))
def test_whatever_the_text_it_is_a_condition_or_a_fault(text: str) -> None:
    assert judged(text) is not None


@given(st.binary(max_size=60))
def test_whatever_the_properties_they_are_judged(properties: bytes) -> None:
    wanted = compile_filter("a > 3 OR a = 2.5 OR a = b OR a > b OR a IN ('x', 'y') OR a CONTAINS 'x' OR a IS NULL")
    assert wanted.matches(properties) in (True, False)


@pytest.mark.parametrize("digits", [10, 11, 5_000])
def test_an_empty_value_behind_a_number_changes_nothing(digits: int) -> None:
    number = b"price\x01%b\x02" % (b"1" * digits)
    for condition in ("price > 5", "price <> 7"):
        assert matches(condition, number + b"price\x01\x02") is matches(condition, number) is (digits == 10)
