"""The property string: parsed as Java does, and searched and changed without parsing."""

import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol.properties import (
    DELAY,
    RESERVED_NAMES,
    TAGS,
    append_property,
    find_property,
    format_properties,
    parse_properties,
    with_last_end,
    with_property,
    without_property,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=10)
STRINGS = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"A", b"TAGS", b"X", b"\x01v\x02", b"\xc3\xa9"]), max_size=15
).map(b"".join)
NAMES = st.sampled_from(["TAGS", "A", "X", "AX"])


@pytest.mark.parametrize(
    ("string", "parsed"),
    [
        (b"", {}),
        (b"TAGS\x01paid\x02KEYS\x011 2\x02", {"TAGS": "paid", "KEYS": "1 2"}),
        (b"TAGS\x01paid", {"TAGS": "paid"}),
        (b"\x02\x02TAGS\x01paid\x02\x02", {"TAGS": "paid"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x011\x02a\x01\x02", {"a": "1"}),
        (b"\x01value\x02name\x01\x02neither\x02ok\x01v\x02", {"ok": "v"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("caf\u00e9\x01\U0001f680\x02".encode(), {"caf\u00e9": "\U0001f680"}),
        (b"a\x01\xff\x02", {"a": "\ufffd"}),
    ],
)
def test_a_string_is_parsed_as_rocketmq_does(string: bytes, parsed: dict[str, str]) -> None:
    assert parse_properties(string) == parsed


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_properties_come_back(properties: dict[str, str]) -> None:
    string = format_properties(properties)
    assert parse_properties(string) == properties
    assert format_properties(properties.items()) == string
    for name, value in properties.items():
        assert find_property(string, name) == value.encode()
        assert find_property(string, name.encode()) == value.encode()


@given(STRINGS, NAMES)
@example(b"TAGS\x01a\x02XTAGS\x01b\x02", "TAGS")
@example(b"TAGS\x01a\x02TAGS\x01\x02", "TAGS")
@example(b"A\x01TAGS\x01x\x02", "TAGS")
def test_a_property_is_found_as_if_all_were_parsed(string: bytes, name: str) -> None:
    parsed = parse_properties(string).get(name)
    found = find_property(string, name)
    assert found == (None if parsed is None else parsed.encode())


@pytest.mark.parametrize(
    "string", [b"XTAGS\x01a\x02", b"TAGSX\x01a\x02", b"A\x01TAGS\x01x\x02", b"A\x01TAGS\x02", b"TAGS"]
)
def test_a_property_is_not_found_inside_another_name_or_value(string: bytes) -> None:
    assert find_property(string, TAGS) is None
    assert without_property(string, TAGS) is string


@given(STRINGS, NAMES, TEXT)
def test_a_property_that_is_set_counts_and_the_others_stay(string: bytes, name: str, value: str) -> None:
    wanted = parse_properties(string) | {name: value}
    assert parse_properties(with_property(string, name, value)) == wanted
    assert parse_properties(append_property(string, name.encode(), value.encode())) == wanted


@given(STRINGS, NAMES)
def test_a_property_that_is_cut_out_is_gone_and_the_others_stay(string: bytes, name: str) -> None:
    without = without_property(string, name)
    wanted = parse_properties(string)
    wanted.pop(name, None)
    assert parse_properties(without) == wanted
    assert find_property(without, name) is None


def test_what_is_not_concerned_keeps_its_bytes_and_its_order() -> None:
    string = b"b\x01\xff\x02DELAY\x013\x02a\x01\x02DELAY\x014\x02c"
    assert without_property(string, DELAY) == b"b\x01\xff\x02a\x01\x02c"
    assert with_property(string, DELAY, "5") == b"b\x01\xff\x02a\x01\x02c\x02DELAY\x015\x02"


@given(st.lists(st.sampled_from([b"A\x01", b"A", b"XA\x01", b"\x01", b"\x02", b"v", b"A\x01v\x02", b"B\x01w\x02"])))
def test_a_property_is_cut_out_as_an_entry_of_a_list_is_left_out(parts: list[bytes]) -> None:
    string = b"".join(parts)
    kept = [entry for entry in string.split(b"\x02") if not entry.startswith(b"A\x01")]
    assert without_property(string, "A") == b"\x02".join(kept)


def test_a_missing_last_end_is_added() -> None:
    assert with_last_end(b"a\x01b") == b"a\x01b\x02"
    assert with_last_end(b"a\x01b\x02") == b"a\x01b\x02"
    assert with_last_end(b"") == b""


def test_names_that_users_may_and_may_not_set() -> None:
    assert {"TAGS", "UNIQ_KEY", "1ST_POP_TIME", "__CRC32#", "__BORNHOST"} <= RESERVED_NAMES
    assert not {"__SHARDINGKEY", "TRACE_CONTEXT", "__transactionId__", "INNER_NUM", "colour"} & RESERVED_NAMES
