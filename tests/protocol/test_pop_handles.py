"""Handles and info strings of pops: they come out as they went in; what isn't one is refused in RocketMQ's words."""

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.batch_acks import BIT_SET_BYTES_MAX, make_entry, read_entry
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.numbers import INT64_MAX, INT64_MIN
from staticfire.protocol.pop_handles import (
    NORMAL,
    RETRY,
    RETRY_V2,
    OrderCounts,
    PopHandle,
    format_handle,
    format_message_offsets,
    format_order_counts,
    format_start_offsets,
    parse_handle,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
)

longs, ints = st.integers(INT64_MIN, INT64_MAX), st.integers(-(2**31), 2**31 - 1)
flags = st.sampled_from([NORMAL, RETRY, RETRY_V2])
names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
handles = st.builds(PopHandle, longs, longs, longs, ints, flags, names, ints, longs)
keys = st.tuples(flags, ints)
HANDLE = PopHandle(0, 1795319639607, 30000, 4, 0, "broker-a", 0, 2)


def test_a_handle_as_rocketmq_writes_it() -> None:
    assert format_handle(HANDLE) == "0 1795319639607 30000 4 0 broker-a 0 2"
    assert parse_handle("0 1795319639607 30000 4 0 broker-a 0 2") == HANDLE


@given(handles)
def test_handles(handle: PopHandle) -> None:
    assert parse_handle(format_handle(handle)) == handle


def test_a_handle_without_queue_and_offset() -> None:
    assert parse_handle("0 5 6 4 1 b") == PopHandle(0, 5, 6, 4, 1, "b", -1, -1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "split extraInfo is null"),
        ("", "split extraInfo is null"),
        ("abc", "getBrokerName fail, extraInfoStrs length 1"),
        ("1 2 3 4 0 ", "getBrokerName fail, extraInfoStrs length 5"),
        ("x 2 3 4 0 b", 'For input string: "x"'),
        ("1 2.0 3 4 0 b", 'For input string: "2.0"'),
        ("1 2 3 4 3 b", "getRetry fail, format is wrong"),
        ("1 2  4 0 b 0 0", 'For input string: ""'),
        (f"{2**63} 2 3 4 0 b", f'For input string: "{2**63}"'),
        (f"1 2 3 {2**31} 0 b", f'For input string: "{2**31}"'),
        ("1 2 3 ٤ 0 b", 'For input string: "٤"'),
        ("1_0 2 3 4 0 b", 'For input string: "1_0"'),
    ],
)
def test_what_is_no_handle(text: str | None, words: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_handle(text)
    assert words in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_read(text: str) -> None:
    for parse in (parse_handle, parse_start_offsets, parse_message_offsets, parse_order_counts):
        try:
            parse(text)
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    ("flag", "topic"), [(NORMAL, "orders"), (RETRY, "%RETRY%billing_orders"), (RETRY_V2, "%RETRY%billing+orders")]
)
def test_where_a_message_really_lies(flag: int, topic: str) -> None:
    assert HANDLE._replace(flag=flag).real_topic("orders", "billing") == topic


def test_a_changed_message_is_a_check_point_alone() -> None:
    assert format_handle(HANDLE.changed(1795319650000, 5000, 4)) == "2 1795319650000 5000 4 0 broker-a 0 2"


@given(st.dictionaries(keys, longs), st.dictionaries(keys, st.lists(longs, min_size=1, max_size=5)))
def test_info_strings(starts: dict[tuple[int, int], int], taken: dict[tuple[int, int], list[int]]) -> None:
    assert parse_start_offsets(format_start_offsets(starts)) == starts
    assert parse_message_offsets(format_message_offsets(taken)) == taken


@given(st.dictionaries(st.tuples(flags, ints, longs), ints), st.dictionaries(keys, ints))
def test_order_counts(by_offset: dict[tuple[int, int, int], int], by_queue: dict[tuple[int, int], int]) -> None:
    counts = OrderCounts(by_offset, by_queue)
    assert parse_order_counts(format_order_counts(counts)) == counts


def test_info_strings_as_rocketmq_writes_them() -> None:
    assert parse_start_offsets("0 1 89;1 0 25") == {(0, 1): 89, (1, 0): 25}
    assert parse_message_offsets("0 0 0,2,4;0 1 0") == {(0, 0): [0, 2, 4], (0, 1): [0]}
    counts = parse_order_counts("0 qo0%3 2;0 qo0%4 1;0 0 0")
    assert [counts.of(0, 0, offset) for offset in (3, 4, 5)] == [2, 1, 0]
    assert parse_start_offsets("") == {}
    assert parse_message_offsets(None) == {}


@pytest.mark.parametrize("text", ["0 0", "0 0 0 0", "0 0 1;0 0 2", "x 0 0", "0 x 0", "0 0 x", ";"])
def test_what_is_no_info_string(text: str) -> None:
    for parse in (parse_start_offsets, parse_message_offsets):
        with pytest.raises(ProtocolError):
            parse(text)


# -- entries of a batch acknowledgement --------------------------------------------------------------------------------


def test_an_entry_as_rocketmq_writes_it() -> None:
    entry = make_entry("g", "orders", HANDLE, [0, 1, 9, 11])
    assert entry == {
        "c": "g", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 4, "pt": 1795319639607, "it": 30000, "b": "Awo=",
    }  # fmt: skip
    read = read_entry(entry, "broker-a")
    assert (read.group, read.topic, read.queue_offsets) == ("g", "orders", (0, 1, 9, 11))
    assert read.handle == HANDLE._replace(queue_offset=0)


def test_long_names_and_byte_values() -> None:
    names = {"consumerGroup": "g", "topic": "orders", "retry": 2, "startOffset": "5", "queueId": 1, "bitSet": [3, -128]}
    read = read_entry(names, "b")
    assert (read.group, read.handle.flag, read.handle.queue_id, read.queue_offsets) == ("g", 2, 1, (5, 6, 20))


@given(handles, st.sets(st.integers(0, 500), max_size=40))
def test_entries(handle: PopHandle, bits: set[int]) -> None:
    offsets = tuple(sorted(handle.start_offset + bit for bit in bits))
    assert read_entry(make_entry("g", "orders", handle, offsets), handle.broker_name).queue_offsets == offsets


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"r": "3"}, "getRetry fail"),
        ({"r": None}, "got `null`"),
        ({"b": "A"}, "bit set"),
        ({"b": "Awo=\n"}, "bit set"),
        ({"b": [256]}, "256|255"),
        ({"b": [1] * (BIT_SET_BYTES_MAX + 1)}, "the limit is 4096"),
        ({"so": 2**63}, "so"),
        ({"q": "x"}, "q"),
    ],
)
def test_what_is_no_entry(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        read_entry(make_entry("g", "orders", HANDLE, [0]) | change, "b")


@pytest.mark.parametrize("missing", ["r", "b"])
def test_an_entry_without(missing: str) -> None:
    entry = make_entry("g", "orders", HANDLE, [0])
    del entry[missing]
    with pytest.raises(ProtocolError, match=f"missing required field `{missing}`"):
        read_entry(entry, "b")


def test_a_message_of_another_check_point_makes_no_entry() -> None:
    for offset in (-1, BIT_SET_BYTES_MAX * 8):
        with pytest.raises(ProtocolError, match="can't belong to the check-point at 0"):
            make_entry("g", "orders", HANDLE, [offset])


def test_a_long_bit_set_is_read_quickly() -> None:
    octets = base64.b64encode(b"\xff" * BIT_SET_BYTES_MAX).decode()
    read = read_entry(make_entry("g", "orders", HANDLE, [0]) | {"b": octets}, "b")
    assert read.queue_offsets == tuple(range(BIT_SET_BYTES_MAX * 8))
