"""Tags: Java's hash codes and what expressions match."""

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.tags import (
    EVERY_TAG,
    EXPRESSIONS_CHARACTERS_MAX,
    TagExpression,
    TagExpressionError,
    TagTable,
    java_hash,
    tags_code,
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("\u00e9", 233),
        ("\U0001f680", 31 * 0xD83D + 0xDE80),
        ("hello world", 1794106052),
    ],
)
def test_hash_codes_are_javas(text: str, code: int) -> None:
    assert java_hash(text) == code


@given(st.text(max_size=30))
def test_a_hash_code_is_the_sum_that_javas_documentation_gives(text: str) -> None:
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units))
    assert java_hash(text) == (total + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"", 0),
        (b"KEYS\x01a\x02", 0),
        (b"TAGS\x01\x02", 0),
        (b"TAGS\x01TagA\x02", 2598919),
        ("TAGS\x01\u00e9\x02".encode(), 233),
    ],
)
def test_the_code_of_a_record_is_that_of_its_tag(properties: bytes, code: int) -> None:
    assert tags_code(properties) == code


@pytest.mark.parametrize("text", [None, "", "*"])
def test_no_expression_and_the_star_want_everything(text: str | None) -> None:
    expression = TagExpression.parse(text)
    assert expression == EVERY_TAG
    assert expression.all_tags
    assert expression.matches(None)
    assert expression.matches("a")
    assert expression.matches_code(0)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a", {"a"}),
        ("a || b", {"a", "b"}),
        ("a||b||", {"a", "b"}),
        ("||a", {"a"}),
        ("\ta  ||\n", {"a"}),
        ("a|b", {"a|b"}),
        ("|", {"|"}),
        ("|||", {"|"}),
        (" ", set()),
        (" || ", set()),
        ("* || a", {"*", "a"}),
        ("\u00a0a", {"\u00a0a"}),
    ],
)
def test_an_expression_names_its_tags(text: str, tags: set[str]) -> None:
    expression = TagExpression.parse(text)
    assert expression.tags == tags
    assert expression.codes == set(map(java_hash, tags))
    assert not expression.all_tags
    assert not expression.matches(None)
    assert not expression.matches_code(0)
    assert all(expression.matches(tag) and expression.matches_code(java_hash(tag)) for tag in tags)


@pytest.mark.parametrize("text", ["||", "||||"])
def test_bars_alone_are_an_error(text: str) -> None:
    with pytest.raises(TagExpressionError, match="contains no tag"):
        TagExpression.parse(text)


def test_the_broker_sends_what_has_the_same_code_and_the_consumer_drops_it() -> None:
    expression = TagExpression.parse("Aa")
    assert expression.matches_code(java_hash("BB"))
    assert not expression.matches("BB")


def test_a_message_tagged_with_an_expression_matches_none_of_its_parts() -> None:
    expression = TagExpression.parse("A || B")
    assert not expression.matches("A || B")
    assert not expression.matches_code(java_hash("A || B"))


def test_an_expression_that_is_sent_again_is_not_parsed_again_also_if_it_is_long() -> None:
    """It takes half a second, in which a broker does nothing else, and a consumer sends it with each request."""
    table, long = TagTable(), " || ".join(f"t{number}" for number in range(100_000))
    assert table.test_of(long) == table.test_of(long)  # Both are a method of the same object.


@pytest.mark.parametrize("length", [10, 200_000, 1_100_000])
def test_a_table_of_expressions_has_a_limit(length: int) -> None:
    table = TagTable()
    for number in range({10: 11_000, 200_000: 8, 1_100_000: 2}[length]):
        table.test_of(f"{number}{'x' * length}")
    kept = table._expressions  # house: only the memory shows it
    assert sum(len(text) + 100 for text in kept) <= EXPRESSIONS_CHARACTERS_MAX
    assert bool(kept) is (length < 1_000_000)


def test_long_tags_take_no_memory() -> None:
    """A header may contain a megabyte of them, in each request another one."""
    longs = [f"{number:04}" + "\U0001f680" * 5_000 for number in range(5)]  # 20 kB each
    tracemalloc.start()
    for long in longs:
        assert {tags_code(b"TAGS\x01%b\x02" % long.encode())} == TagExpression.parse(long).codes
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 20_000
