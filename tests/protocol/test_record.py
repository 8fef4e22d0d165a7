"""The stored record: its bytes, its round trip, and what recovery makes of damaged ones."""

from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    RECORD_BYTES_MIN,
    RECORD_MAGIC,
    Found,
    check_record,
    decode_record,
    decode_records,
    join_records,
    pack_blank,
    pack_record,
    pack_topic,
    peek_record,
    peek_record_bytes,
    peek_topic_and_properties,
    record_size,
)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)

V4_HOST = bytes([127, 0, 0, 1, 0, 0, 0x30, 0x39])
ORDER = (
    1000,
    3,
    7,
    1_700_000_000_001,
    1_700_000_000_000,
    0,
    5,
    1,
    0,
    V4_HOST,
    pack_topic("orders"),
    b"TAGS\x01a\x02",
    b"hi",
)

GOLDEN = bytes.fromhex(
    "dc0011"  # array of 17
    "ce0000007c"  # record_bytes
    "cebc0fef62"  # record_crc
    "ce53460001"  # magic
    "d300000000000003e8"  # log_position
    "d200000003"  # queue_id
    "d30000000000000007"  # queue_offset
    "d30000018bcfe56801"  # stored_ms
    "d30000018bcfe56800"  # born_ms
    "d200000000"  # sys_flag
    "d200000005"  # flag
    "d200000001"  # reconsume_times
    "d30000000000000000"  # prepared_position
    "ce58932aac"  # body_crc
    "c4087f00000100003039"  # born_host
    "da00066f7264657273"  # topic
    "c500075441475301"
    "6102"  # properties
    "c6000000026869"  # body
)


@st.composite
def record_values(draw: st.DrawFn) -> tuple[int, int, int, int, int, int, int, int, int, bytes, str, bytes, bytes]:
    return (
        draw(I64),
        draw(I32),
        draw(I64),
        draw(I64),
        draw(I64),
        draw(I32),
        draw(I32),
        draw(I32),
        draw(I64),
        draw(HOSTS),
        draw(TOPICS),
        draw(st.binary(max_size=2000)),
        draw(st.binary(max_size=300)),
    )


def test_a_record_has_these_bytes() -> None:
    assert pack_record(*ORDER).hex(" ") == GOLDEN.hex(" ")


def test_a_record_is_one_msgpack_array_of_17() -> None:
    values = msgpack.unpackb(GOLDEN)
    assert len(values) == 17
    assert values[0] == len(GOLDEN)
    assert values[1] == crc32(GOLDEN[13:-2])
    assert values[12] == crc32(b"hi") & 0x7FFFFFFF
    assert values[-3:] == ["orders", b"TAGS\x01a\x02", b"hi"]


@given(record_values())
def test_what_was_packed_is_decoded_and_checked(values: tuple[Any, ...]) -> None:
    *numbers, host, topic, properties, body = values
    fields: list[Any] = [*numbers, host, pack_topic(topic), properties, body]
    packed = pack_record(*fields)
    record = decode_record(packed)
    position, queue_id, queue_offset, stored_ms, born_ms, sys_flag, *_ = numbers

    assert len(packed) == record_size(host, pack_topic(topic), properties, body) == record.record_bytes
    assert [
        record.log_position,
        record.queue_id,
        record.queue_offset,
        record.stored_ms,
        record.born_ms,
        record.sys_flag,
        record.flag,
        record.reconsume_times,
        record.prepared_position,
    ] == numbers
    assert (record.born_host, record.topic, record.properties, record.body) == (host, topic, properties, body)
    assert (record.magic, record.body_crc) == (RECORD_MAGIC, crc32(body) & 0x7FFFFFFF)
    assert check_record(packed, 0, position) == (Found.RECORD, len(packed), "")

    behind_others = b"other" + packed + b"more"
    assert peek_record_bytes(behind_others, 5) == len(packed)
    assert peek_record(behind_others, 5) == (
        len(packed),
        position,
        queue_id,
        queue_offset,
        stored_ms,
        born_ms,
        sys_flag,
    )
    assert peek_topic_and_properties(memoryview(behind_others), 5) == (topic, properties)


def test_the_smallest_record() -> None:
    assert len(pack_record(0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), pack_topic(""), b"", b"")) == RECORD_BYTES_MIN


@pytest.mark.parametrize("properties_bytes", [1023, 1024, 32_767, 65_535])
def test_long_properties_are_kept(properties_bytes: int) -> None:
    record = decode_record(pack_record(*ORDER[:-2], b"x" * properties_bytes, b""))
    assert record.properties == b"x" * properties_bytes


@pytest.mark.parametrize(
    "changed",
    [{1: 2**31}, {6: 2**31}, {4: 2**63}, {9: b"short"}, {9: bytes(16)}, {11: bytes(65_536)}],
    ids=["queue id", "flag", "born", "host", "host without port", "properties"],
)
def test_what_does_not_fit_is_refused(changed: dict[int, Any]) -> None:
    values = [changed.get(place, value) for place, value in enumerate(ORDER)]
    with pytest.raises(ProtocolError):
        pack_record(*values)


@pytest.mark.parametrize("topic", ["x" * 65_536, "\ud800"], ids=["too long", "half a surrogate pair"])
def test_a_topic_that_cannot_be_stored_is_refused(topic: str) -> None:
    with pytest.raises(ProtocolError):
        pack_topic(topic)


def test_a_batch_is_slices_of_the_log_behind_an_array_header() -> None:
    log = memoryview(pack_record(*ORDER) * 3)
    size = len(GOLDEN)
    batch = join_records([log[:size], log[size : 3 * size]], record_count=3)
    assert batch == b"\xdd\x00\x00\x00\x03" + GOLDEN * 3
    assert decode_records(batch) == [decode_record(GOLDEN)] * 3
    assert decode_records(join_records([log[:size], GOLDEN])) == [decode_record(GOLDEN)] * 2
    assert decode_records(join_records([])) == []


@given(st.binary(max_size=200))
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x91" * 5000)
def test_bytes_that_are_no_batch_are_a_protocol_error_or_nothing_at_all(batch: bytes) -> None:
    try:
        assert all(isinstance(record.body, bytes) for record in decode_records(batch))
    except ProtocolError:
        pass


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_a_changed_byte_anywhere_is_noticed(place: int, change: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[place] ^= change
    verdict = check_record(damaged, 0, 1000)
    assert verdict.found is Found.BROKEN
    assert verdict.reason


@given(st.integers(1, len(GOLDEN) - 1))
def test_a_record_that_was_cut_short_is_noticed(kept: int) -> None:
    assert check_record(GOLDEN[:kept], 0, 1000).found is Found.BROKEN
    assert check_record(GOLDEN[:kept].ljust(200, b"\0"), 0, 1000).found is Found.BROKEN


def test_a_whole_record_at_the_wrong_position_is_noticed() -> None:
    assert check_record(GOLDEN, 0, 0) == (Found.BROKEN, 0, "its own position field is 1000")


@pytest.mark.parametrize("data", [b"", bytes(5), bytes(500)], ids=["end of file", "few zeros", "zeros"])
def test_where_nothing_was_written_the_log_ends(data: bytes) -> None:
    assert check_record(data, 0, 0).found is Found.NOTHING


@given(st.binary(max_size=300), st.integers(0, 20))
def test_any_bytes_get_a_verdict(data: bytes, at: int) -> None:
    assert check_record(memoryview(data), at, 1000).found is not Found.RECORD
    assert check_record(GOLDEN[:88] + data, 0, 1000).found in (Found.RECORD, Found.BROKEN)


def test_a_blank_says_how_much_room_was_left() -> None:
    blank = pack_blank(5000, 4096)
    assert blank.hex() == "dc0004ce00001000ce" + blank[9:13].hex() + "ce53460000d30000000000001388"
    assert len(blank) == BLANK_BYTES_MIN
    assert msgpack.unpackb(blank) == [4096, crc32(blank[13:]), BLANK_MAGIC, 5000]
    assert check_record(blank, 0, 5000) == (Found.BLANK, 4096, "")
    assert check_record(b"before" + blank + bytes(4069), 6, 5000) == (Found.BLANK, 4096, "")


@given(st.integers(0, BLANK_BYTES_MIN - 1), st.integers(1, 255))
def test_a_damaged_blank_is_noticed(place: int, change: int) -> None:
    damaged = bytearray(pack_blank(5000, 4096))
    damaged[place] ^= change
    if 4 <= place < 8:
        return  # its size has no CRC: the segment's own size says whether it is right
    assert check_record(damaged, 0, 5000).found is Found.BROKEN
