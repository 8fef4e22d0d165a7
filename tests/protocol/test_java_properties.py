"""The text of java.util.Properties."""

from hypothesis import given, strategies as st

from staticfire.protocol.java_properties import read_properties, write_properties


def test_keys_and_values_are_separated_by_equals_colon_or_blanks() -> None:
    assert read_properties("a=1\nb : 2\nc\t3\nd\ne=f=g") == {"a": "1", "b": "2", "c": "3", "d": "", "e": "f=g"}


def test_comments_and_blank_lines_are_skipped() -> None:
    assert read_properties("# a=1\r\n  ! b=2\r\n\r\n  c=3") == {"c": "3"}


def test_a_line_continues_after_a_backslash() -> None:
    assert read_properties("a=1,\\\n    2\nb=x\\\\\nc=3\\") == {"a": "1,2", "b": "x\\", "c": "3"}


def test_a_continued_line_is_no_comment() -> None:
    assert read_properties("\\\n# a=1\na=\\\n!2") == {"#": "a=1", "a": "!2"}


def test_escapes_are_read() -> None:
    assert read_properties(r"a\=b=c\u00e9\tx") == {"a=b": "cé\tx"}


def test_the_last_value_of_a_key_counts() -> None:
    assert read_properties("a=1\na=2") == {"a": "2"}


def test_it_is_written_in_alphabetical_order() -> None:
    assert write_properties({"b": "2", "a": "1"}) == "a=1\nb=2\n"


@given(st.text())
def test_any_text_reads(text: str) -> None:
    read_properties(text)
