"""Plain records have the bytes that any other way of packing them gives."""

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.plain_records import pack_plain_row, plain_packer
from staticfire.protocol.record import pack_record, pack_topic


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 4),
    st.binary(min_size=8, max_size=8),
    st.binary(max_size=2000),
    st.binary(max_size=2000),
)
def test_a_plain_record_has_the_bytes_of_any_other(
    queue_id: int, topic: str, numbers: tuple[int, int, int, int], host: bytes, properties: bytes, body: bytes
) -> None:
    packed_topic = pack_topic(topic)
    position, queue_offset, stored_ms, born_ms = numbers
    record = pack_record(
        position, queue_id, queue_offset, stored_ms, born_ms, 0, 0, 0, 0, host, packed_topic, properties, body
    )
    pieces = plain_packer(queue_id, packed_topic)(*numbers, host, properties, body)
    assert b"".join(pieces) == record


def test_what_does_not_fit_into_a_plain_record_is_a_protocol_error() -> None:
    pack = plain_packer(0, pack_topic("orders"))
    with pytest.raises(ProtocolError, match="does not fit"):
        pack(0, 0, 0, 2**63, bytes(8), b"", b"")
    with pytest.raises(ProtocolError, match="does not fit"):
        pack(0, 0, 0, 0, bytes(8), bytes(70_000), b"")


@given(
    st.integers(0, 2**31 - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.tuples(*[st.integers(0, 2**40)] * 4),
    st.binary(min_size=8, max_size=8),
    st.lists(st.tuples(st.binary(max_size=200), st.binary(max_size=200)), max_size=5),
)
def test_a_row_of_plain_records_has_the_bytes_of_each(
    queue_id: int,
    topic: str,
    numbers: tuple[int, int, int, int],
    host: bytes,
    rows: list[tuple[bytes, bytes]],
) -> None:
    packed_topic = pack_topic(topic)
    position, queue_offset, stored_ms, born_ms = numbers
    given_rows = [(0, properties, body, 99) for properties, body in rows]
    pieces, sizes = pack_plain_row(position, queue_id, queue_offset, stored_ms, born_ms, host, packed_topic, given_rows)
    expected = []
    for number, (properties, body) in enumerate(rows):
        record = pack_record(
            position, queue_id, queue_offset + number, stored_ms, born_ms, 0, 0, 0, 0, host, packed_topic,
            properties, body,
        )  # fmt: skip
        expected.append(record)
        position += len(record)
    assert b"".join(pieces) == b"".join(expected)
    assert sizes == list(map(len, expected))
