"""The compiled twin makes the bytes that the Python beside it makes, and leaves to Python what it must."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct

import pytest
from hypothesis import given, strategies as st

from staticfire.protocol.batch_rows import batch_rows
from staticfire.protocol.checksums import crc32
from staticfire.protocol.compiled import twin, usable_twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import BATCH_MESSAGES_MAX
from staticfire.protocol.properties import parse_properties, with_last_end
from staticfire.protocol.record import (
    Buffer,
    decode_record,
    pack_record,
    pack_topic,
    peek_topic_and_properties,
    proven_offset,
)
from staticfire.protocol.rocketmq_record import (
    BatchMessage,
    decode_batch,
    encode_batch,
    rocketmq_records_in_python,
    to_rocketmq,
)

pytestmark = pytest.mark.skipif(twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set")

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
OFTEN_0 = st.just(0) | I32
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)
ENTRY = Struct(">qiq")
TAGS = st.sampled_from([b"", b"paid", b"a b", "größer".encode(), b"\xff", b"TAGS\x01", b"p\x01q"])
PROPERTIES = st.lists(
    st.one_of(
        TAGS.map(lambda tag: b"TAGS\x01" + tag),
        TAGS.map(lambda tag: b"XTAGS\x01" + tag),
        st.binary(max_size=20),
        st.just(b"KEYS\x01k"),
    ),
    max_size=4,
).map(b"\x02".join)
ENDS = st.sampled_from([b"", b"\x02"])
MESSAGES = st.builds(
    BatchMessage,
    st.just(0),
    st.binary(min_size=1, max_size=300),
    st.builds(bytes.__add__, PROPERTIES, ENDS),
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    return pack_record(
        draw(I64), draw(I32), draw(I64), draw(I64), draw(I64), draw(OFTEN_0), draw(OFTEN_0), draw(OFTEN_0), draw(I64),
        draw(HOSTS), pack_topic(draw(TOPICS)), draw(PROPERTIES | st.binary(max_size=100)),
        draw(st.binary(max_size=100)),
    )  # fmt: skip


@given(st.lists(st.lists(records(), max_size=3).map(b"".join), max_size=4), HOSTS)
def test_records_become_rocketmqs_as_in_python(slices: list[bytes], store_host: bytes) -> None:
    assert twin is not None
    expected = rocketmq_records_in_python(slices, store_host)
    assert twin.rocketmq_records(slices, store_host, to_rocketmq) == expected
    assert twin.rocketmq_records([memoryview(each) for each in slices], store_host, to_rocketmq) == expected


@given(st.lists(st.lists(records(), max_size=3).map(b"".join), max_size=4), HOSTS, st.integers(18, 3_000))
def test_a_pulls_answer_is_made_at_once_or_in_python(slices: list[bytes], store_host: bytes, bytes_max: int) -> None:
    assert twin is not None
    made = rocketmq_records_in_python(slices, store_host)
    frame = twin.pulled_frame(slices, store_host, b'{"code":0}', bytes_max)
    if frame is None:
        is_plain = all(len(peek_topic_and_properties(each)[0].encode()) <= 127 for each in ones(slices))
        hosts = {len(store_host), *(each[89] for each in ones(slices))}
        assert not is_plain or hosts != {8} or 18 + sum(map(len, made)) > bytes_max
    else:
        head = len(frame) - 4, 10
        assert frame == b"".join([number.to_bytes(4, "big") for number in head] + [b'{"code":0}', *made])
        assert len(frame) <= bytes_max


def ones(slices: list[bytes]) -> Iterator[bytes]:
    """Yield each record of slices."""
    for each in slices:
        at = 0
        while at < len(each):
            size = int.from_bytes(each[at + 4 : at + 8], "big")
            yield each[at : at + size]
            at += size


@given(st.binary(max_size=300), HOSTS)
def test_no_answer_is_made_of_bytes_that_are_no_record(data: bytes, store_host: bytes) -> None:
    assert twin is not None
    assert twin.pulled_frame([data], store_host, b"", 1 << 20) is None or not data


def test_what_rocketmq_has_no_record_of_is_refused_as_in_python() -> None:
    assert twin is not None
    record = pack_record(0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), pack_topic("t"), bytes(40_000), b"")
    with pytest.raises(ProtocolError, match="40000 bytes of properties"):
        twin.rocketmq_records([record], bytes(8), to_rocketmq)


@given(st.binary(max_size=300), HOSTS)
def test_bytes_that_are_no_record_never_reach_beyond_their_end(data: bytes, store_host: bytes) -> None:
    assert twin is not None
    with pytest.raises(LookupError) if data else pytest.raises(AssertionError):
        made = twin.rocketmq_records([data], store_host, refused)
        assert made, "nothing in, nothing out"
        raise LookupError


def refused(stored: Buffer, store_host: bytes, at: int) -> bytes:
    raise LookupError


def packed_in_python(batch: bytes, added: bytes, queue_id: int, *numbers: int) -> tuple[bytes, bytes, list[int]] | None:
    position, queue_offset, stored_ms, born_ms = numbers
    rows = batch_rows(decode_batch(batch), added)
    if rows is None:
        return None
    topic, records, entries, positions = pack_topic("orders"), b"", b"", []
    for index, (flag, properties, body, tags_code) in enumerate(rows):
        at, offset = position + len(records), queue_offset + index
        record = pack_record(at, queue_id, offset, stored_ms, born_ms, 0, flag, 0, 0, bytes(8), topic, properties, body)
        entries += ENTRY.pack(at, len(record), tags_code)
        records += record
        positions.append(at)
    return records, entries, positions


def packed_by_twin(batch: bytes, added: bytes, queue_id: int, *numbers: int) -> tuple[bytes, bytes, list[int]] | None:
    assert twin is not None
    position, queue_offset, stored_ms, born_ms = numbers
    topic = pack_topic("orders")
    packed = twin.pack_batch(
        batch, added, position, queue_id, queue_offset, stored_ms, born_ms, bytes(8), topic, 4_000_000, crc32
    )
    return packed


NUMBERS = st.tuples(st.integers(0, 2**31 - 1), *[st.integers(0, 2**40)] * 4)


@given(st.lists(MESSAGES, min_size=1, max_size=5), ENDS, NUMBERS)
def test_a_batch_is_stored_as_in_python_or_left_to_it(
    messages: list[BatchMessage], end: bytes, numbers: tuple[int, ...]
) -> None:
    batch, added = encode_batch(messages), b"MSG_REGION\x01r\x02CLUSTER\x01c" + end
    packed = packed_by_twin(batch, added, *numbers)
    assert packed is None or packed == packed_in_python(batch, added, *numbers)
    if not any(b"TAGS" in message.properties for message in messages):
        assert packed is not None


@given(st.sampled_from([b"", b"paid", b"a b"]), st.booleans())
def test_usual_tags_are_not_left_to_python(tag: bytes, is_first: bool) -> None:
    entries = [b"TAGS\x01" + tag, b"KEYS\x01k"]
    batch = encode_batch([BatchMessage(0, b"body", b"\x02".join(entries if is_first else entries[::-1]) + b"\x02")])
    packed = packed_by_twin(batch, b"", 1, 2, 3, 4, 5)
    assert packed is not None
    assert packed == packed_in_python(batch, b"", 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "message",
    [
        BatchMessage(1, b"flag", b""),
        BatchMessage(0, b"", b""),
        BatchMessage(0, b"properties", bytes(32_767)),
        BatchMessage(0, b"delayed", b"DELAY\x013\x02"),
        BatchMessage(0, b"timed", b"TIMER_DELIVER_MS\x013\x02"),
        BatchMessage(0, b"half", b"KEYS\x01k\x02TRAN_MSG\x01true"),
    ],
)
def test_what_is_not_plain_is_left_to_python(message: BatchMessage) -> None:
    added = b"" if message.flag else b"CLUSTER\x01c\x02"
    assert packed_by_twin(encode_batch([BatchMessage(0, b"plain", b""), message]), added, 0, 0, 0, 0, 0) is None


def test_more_messages_than_a_batch_may_have_are_left_to_python() -> None:
    one = [BatchMessage(0, b"x", b"")]
    assert packed_by_twin(encode_batch(one * BATCH_MESSAGES_MAX), b"", 0, 0, 0, 0, 0) is not None
    assert packed_by_twin(encode_batch(one * (BATCH_MESSAGES_MAX + 1)), b"", 0, 0, 0, 0, 0) is None


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_broken_batch_is_left_to_python(messages: list[BatchMessage], data: st.DataObject) -> None:
    batch = encode_batch(messages)
    broken = batch[: data.draw(st.integers(0, len(batch) - 1))]
    try:
        expected = packed_in_python(broken, b"", 0, 0, 0, 0, 0)
    except ProtocolError:
        expected = None
    packed = packed_by_twin(broken, b"", 0, 0, 0, 0, 0)
    assert packed is None or packed == expected


@given(st.binary(max_size=200))
def test_garbage_is_no_batch(garbage: bytes) -> None:
    try:
        expected = packed_in_python(garbage, b"", 0, 0, 0, 0, 0)
    except ProtocolError:
        expected = None
    packed = packed_by_twin(garbage, b"", 0, 0, 0, 0, 0)
    assert packed is None or packed == expected


def proven_in_python(slices: list[bytes], positions: list[int], sizes: list[int], least: int, end: int) -> bool:
    data = b"".join(slices)
    at = 0
    for position, size in zip(positions, sizes, strict=True):
        offset = proven_offset(memoryview(data)[at : at + size], position, size, 3, pack_topic("orders"))
        if not least <= offset < end:
            return False
        least, at = offset + 1, at + size
    return True


def row_of_records() -> tuple[list[bytes], list[int], list[int]]:
    """Return three records of queue 3 of orders from offset 7 on, where they lie, and their sizes."""
    records: list[bytes] = []
    position = 1000
    positions = []
    for number, host in enumerate([bytes(8), bytes(20), bytes(8)]):
        body = bytes([number]) * 5 * number
        record = pack_record(
            position, 3, 7 + number, 1, 1, 0, 0, 0, 0, host, pack_topic("orders"), b"TAGS\x01a\x02", body
        )
        records.append(record)
        positions.append(position)
        position += len(record)
    return records, positions, list(map(len, records))


def test_a_row_is_proven_in_one_slice_and_in_three() -> None:
    assert twin is not None
    records, positions, sizes = row_of_records()
    for slices in (records, [b"".join(records)]):
        assert twin.are_proven(slices, positions, sizes, 3, pack_topic("orders"), 7, 10, crc32)
        assert not twin.are_proven(slices, positions, sizes, 3, pack_topic("orders"), 7, 9, crc32)
        assert not twin.are_proven(slices, positions, sizes, 3, pack_topic("orders"), 8, 10, crc32)
        assert not twin.are_proven(slices, positions, sizes, 4, pack_topic("orders"), 7, 10, crc32)
        assert not twin.are_proven(slices, positions, sizes, 3, pack_topic("orderz"), 7, 10, crc32)
        assert not twin.are_proven(
            slices, [each + 1 for each in positions], sizes, 3, pack_topic("orders"), 7, 10, crc32
        )
        assert not twin.are_proven(slices, positions[::-1], sizes, 3, pack_topic("orders"), 7, 10, crc32)


def test_no_damaged_byte_is_proven() -> None:
    """Each byte of a row, in turn."""
    assert twin is not None
    records, positions, sizes = row_of_records()
    row = b"".join(records)
    for at in range(len(row)):
        damaged = row[:at] + bytes([row[at] ^ 0x20]) + row[at + 1 :]
        proven = twin.are_proven([damaged], positions, sizes, 3, pack_topic("orders"), 7, 10, crc32)
        assert proven == proven_in_python([damaged], positions, sizes, 7, 10), at
        assert not proven, at


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 400), st.integers(-1, 400)), max_size=3))
def test_garbage_is_never_proven(garbage: bytes, places: list[tuple[int, int]]) -> None:
    assert twin is not None
    positions, sizes = [each[0] for each in places], [each[1] for each in places]
    proven = twin.are_proven([garbage], positions, sizes, 3, pack_topic("orders"), 0, 2**62, crc32)
    assert proven == (not places)


def test_what_is_no_bytes_is_an_error() -> None:
    assert twin is not None
    with pytest.raises(TypeError):
        twin.are_proven([bytearray(200)], [0], [200], 3, pack_topic("orders"), 0, 1, crc32)  # type: ignore[list-item]


def test_one_that_was_built_from_an_older_source_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_twin("staticfire.protocol._compiled") is not None
    monkeypatch.setattr(sys.modules["staticfire.protocol._compiled"], "MADE_FOR", 1)
    assert usable_twin("staticfire.protocol._compiled") is None
    assert usable_twin("staticfire.protocol._not_built") is None


@given(st.lists(st.lists(st.tuples(records(), st.booleans()), max_size=3), max_size=3), st.data())
def test_columns_are_what_records_have_or_are_left_to_python(
    answers: list[list[tuple[bytes, bool]]], data: st.DataObject
) -> None:
    assert twin is not None
    stored = [[record for record, _ in answer] for answer in answers]
    bodies = [b"head." + b"".join(answer) for answer in stored]
    found = [decode_record(record) for answer in stored for record in answer]
    columns = twin.record_columns(bodies, 5, (b"TAGS", b"KEYS"), True)
    is_plain = all(not one.sys_flag & 1 and are_entries(one.properties) for one in found)
    assert (columns is not None) == is_plain
    if columns is not None:
        rows, offsets, stored_us, _, flags, _, body_at, body_data, (tags, _) = columns
        assert rows == len(found)
        assert Struct(f"={rows}q").unpack(offsets) == tuple(one.queue_offset for one in found)
        assert [us % 2**64 for us in Struct(f"={rows}q").unpack(stored_us)] == [
            one.stored_ms * 1000 % 2**64 for one in found
        ]
        assert Struct(f"={rows}i").unpack(flags) == tuple(one.flag for one in found)
        assert texts(body_at, body_data or b"") == [one.body for one in found]
        wanted = [parse_properties(one.properties).get("TAGS") for one in found]
        assert texts(tags[0], tags[1]) == [(text or "").encode() for text in wanted]
        assert [bool(tags[2][row >> 3] >> (row & 7) & 1) for row in range(rows)] == [
            text is not None for text in wanted
        ]
        assert tags[3] == wanted.count(None)
    for index, body in enumerate(bodies):
        spoilt = bytearray(body)
        spoilt[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(spoilt[: data.draw(st.integers(0, len(body)))])
        twin.record_columns([*bodies[:index], cut], 5, (b"TAGS", b"KEYS"), True)  # It comes back, whatever it finds.


def are_entries(properties: bytes) -> bool:
    entries = [entry.partition(b"\1") for entry in with_last_end(properties).split(b"\2")[:-1]]
    return properties.isascii() and all(name and separator and value for name, separator, value in entries)


def texts(starts: bytes | None, together: bytes) -> list[bytes]:
    assert starts is not None
    edges = Struct(f"={len(starts) // 4}i").unpack(starts)
    return [together[start:end] for start, end in pairwise(edges)]
