"""Copies of records that aren't decoded: the bytes that packing a decoded one would write."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import Found, check_record, decode_record, pack_record, pack_topic
from staticfire.protocol.record_copies import CopyOf, consumed_again, cut, renamed

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(0, 2**62)
HOSTS = st.sampled_from([bytes(range(8)), bytes(range(20))])
TEXTS = st.text("abc%-_", min_size=1, max_size=40)


@given(
    st.tuples(I64, I32, I64, I64, I64, I32, I32, st.integers(0, 99), I64), HOSTS, TEXTS, TEXTS,
    st.binary(max_size=1500), st.binary(max_size=1500), st.binary(max_size=3000),
)  # fmt: skip
def test_copies_are_what_packing_writes(
    numbers: Any, host: bytes, topic: str, other: str, properties: bytes, new: bytes, body: bytes
) -> None:
    pack: Any = pack_record
    stored = pack(*numbers, host, pack_topic(topic), properties, body)
    parts, record = cut(stored), decode_record(stored)
    assert (parts.queue_offset, parts.properties) == (record.queue_offset, properties)

    copy = consumed_again(parts, CopyOf(77, 0, 5, 1234, 8, bytes(8), pack_topic(other), new))
    assert copy == pack_record(
        77, 0, 5, 1234, record.born_ms, 8, record.flag, record.reconsume_times + 1, 0, bytes(8), pack_topic(other),
        new, body,
    )  # fmt: skip
    assert check_record(copy, 0, 77).found is Found.RECORD

    reported = renamed(parts, pack_topic(other), new)
    assert reported == pack(*numbers, host, pack_topic(other), new, body)


def test_properties_that_do_not_fit_are_refused() -> None:
    parts = cut(pack_record(0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), pack_topic("t"), b"", b"x"))
    with pytest.raises(ProtocolError, match="does not fit"):
        renamed(parts, pack_topic("t"), bytes(70_000))
    with pytest.raises(ProtocolError, match="does not fit"):
        consumed_again(parts, CopyOf(0, 2**40, 0, 0, 0, bytes(8), pack_topic("t"), b""))
