"""Columns made of whole answers are what the records say, one by one."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline import batches
from staticfire.pipeline.batches import BatchMaker
from staticfire.pipeline.expressions import SourceExpression
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.plain_columns import PlainMaker
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.property_columns import PropertyTable
from staticfire.pipeline.pulls import Pulled
from staticfire.pipeline.schema import arrow_schema, spark_schema
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import parse_properties
from staticfire.protocol.record import decode_record, join_records, pack_record, pack_topic
from staticfire.protocol.rocketmq_record import to_rocketmq
from staticfire.protocol.sys_flag import CompressionKind, with_compression

pytestmark = pytest.mark.spark

QUEUE = MessageQueue("orders", "broker-a", 3)
NATIVE = SourceOptions("127.0.0.1:1", ("orders",), include_properties=True)
ROCKETMQ = replace(NATIVE, protocol="rocketmq")
SCHEMA = arrow_schema(spark_schema(include_properties=True))
ZLIB = CompressionKind.ZLIB
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
V6 = bytes(15) + b"\x01" + bytes([0, 0, 0x2A, 0x9F])

property_strings = st.one_of(
    st.lists(
        st.tuples(
            st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "XTAGS", "größe", ""]),
            st.sampled_from(["", "paid", "1 2", "é", "x\x01y"]),
        )
    ).map(lambda items: "".join(f"{name}\x01{value}\x02" for name, value in items).encode()),
    st.binary(max_size=30),
    st.just(b"TAGS\x01paid\x02KEYS\x017"),
)


@st.composite
def records(draw: st.DrawFn) -> list[bytes]:
    return [
        pack_record(
            log_position=number * 1000,
            queue_id=3,
            queue_offset=number,
            stored_ms=draw(st.integers(0, 4_000_000_000_000)),
            born_ms=draw(st.integers(0, 4_000_000_000_000)),
            sys_flag=0,
            flag=draw(st.integers(-(2**31), 2**31 - 1)),
            reconsume_times=draw(st.integers(0, 16)),
            prepared_position=draw(st.sampled_from([-1, 0, 7])),
            born_host=draw(st.sampled_from([HOST, V6])),
            packed_topic=pack_topic("orders"),
            properties=draw(property_strings),
            body=draw(st.binary(max_size=40)),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


def one_batch(maker: BatchMaker, pulled: Pulled) -> pa.RecordBatch:
    (batch,) = maker.batches(pulled)
    return batch


def made(options: SourceOptions, bodies: list[bytes], count: int) -> pa.RecordBatch:
    return one_batch(BatchMaker(options, QueueRange(QUEUE, 0, count), SCHEMA), Pulled(bodies, HOST))


def expected(stored: bytes, host: bytes) -> dict[str, object]:
    """Return a row made of the message that the client itself has received."""
    message = ReceivedMessage(decode_record(stored), QUEUE.broker_name, host)
    return {
        "topic": "orders",
        "flag": message.flag,
        "body": message.body,
        "properties": sorted(message.properties.items()),
        "brokerName": "broker-a",
        "queueId": 3,
        "queueOffset": message.queue_offset,
        "bornTimestamp": message.born_ms,
        "storeTimestamp": message.stored_ms,
        "tags": message.tags,
        "keys": message.get("KEYS"),
        "messageId": message.message_id,
        "reconsumeTimes": message.reconsume_times,
    }


def as_rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        row["properties"] = sorted(row["properties"])
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = round(row[name].timestamp() * 1000)
    return rows


@given(records())
@settings(max_examples=150)
def test_native_answer_becomes_the_rows_of_its_records(stored: list[bytes]) -> None:
    halves = [half for half in (stored[:2], stored[2:]) if half]
    batch = made(NATIVE, [join_records(half) for half in halves], len(stored))
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA)
    assert as_rows(batch) == [expected(record, HOST) for record in stored]


@given(records(), st.sampled_from([HOST, V6]))
@settings(max_examples=150)
def test_rocketmqs_answer_becomes_the_same_rows(stored: list[bytes], store_host: bytes) -> None:
    body = b"".join(to_rocketmq(record, store_host) for record in stored)
    batch = made(ROCKETMQ, [body], len(stored))
    batch.validate(full=True)
    assert as_rows(batch) == [expected(record, store_host) for record in stored]


def test_rocketmqs_long_topics_are_understood() -> None:
    record = pack_record(0, 3, 0, 1, 2, 0, 0, 0, 0, HOST, pack_topic("t" * 200), b"TAGS\x01paid\x02", b"body")
    (row,) = made(ROCKETMQ, [to_rocketmq(record, HOST)], 1).to_pylist()
    assert (row["body"], row["tags"]) == (b"body", "paid")


def plain(number: int, body: bytes, properties: bytes = b"", sys_flag: int = 0, born_host: bytes = HOST) -> bytes:
    return pack_record(0, 3, number, 1, 2, sys_flag, 0, 0, 0, born_host, pack_topic("orders"), properties, body)


def test_compressed_bodies_are_expanded_and_a_damaged_one_stays() -> None:
    text = b"again and " * 50
    compressors: dict[CompressionKind, Callable[[bytes], bytes]] = {
        CompressionKind.ZLIB: zlib.compress,
        CompressionKind.LZ4: lambda body: _arrow_compressed(body, "lz4"),
        CompressionKind.ZSTD: lambda body: _arrow_compressed(body, "zstd"),
    }
    stored = [
        plain(number, compress(text), sys_flag=with_compression(0, kind))
        for number, (kind, compress) in enumerate(compressors.items())
    ]
    stored += [plain(3, b"plain"), plain(4, b"damaged", sys_flag=with_compression(0, CompressionKind.ZLIB))]
    batch = made(NATIVE, [join_records(stored)], 5)
    assert batch.column("body").to_pylist() == [text, text, text, b"plain", b"damaged"]


@pytest.mark.parametrize("kind", list(CompressionKind))
def test_a_body_that_expands_beyond_the_limit_stays(monkeypatch: pytest.MonkeyPatch, kind: CompressionKind) -> None:
    monkeypatch.setattr(batches, "EXPANDED_BYTES_MAX", 4_096)
    text = bytes(4_097)
    body = zlib.compress(text) if kind is CompressionKind.ZLIB else _arrow_compressed(text, kind.name.lower())
    batch = made(NATIVE, [join_records([plain(0, body, sys_flag=with_compression(0, kind))])], 1)
    assert batch.column("body").to_pylist() == [body]


@pytest.mark.parametrize("options", [NATIVE, ROCKETMQ], ids=["native", "rocketmq"])
def test_bodies_that_decompress_to_much_more_come_in_several_batches(
    monkeypatch: pytest.MonkeyPatch, options: SourceOptions
) -> None:
    """The batches are the same rows, and none has more decompressed bytes than the limit, or a single body."""
    monkeypatch.setattr(batches, "EXPANDED_BATCH_BYTES_MAX", 10_000)
    sizes = [0, 4_000, None, 6_000, 1, 30_000, None, 5_000, 4_000]
    stored = [
        plain(number, b"plain", b"TAGS\x01%d\x02" % number)
        if size is None
        else plain(number, zlib.compress(bytes(size)), b"TAGS\x01%d\x02" % number, with_compression(0, ZLIB))
        for number, size in enumerate(sizes)
    ]
    answer = [join_records(stored)] if options is NATIVE else [to_rocketmq(record, HOST) for record in stored]
    maker = BatchMaker(options, QueueRange(QUEUE, 0, len(sizes)), SCHEMA)
    made = list(maker.batches(Pulled(answer, HOST)))
    assert [batch.num_rows for batch in made] == [4, 1, 2, 2]
    for batch in made:
        batch.validate(full=True)
    rows = [row for batch in made for row in batch.to_pylist()]
    assert [row["body"] for row in rows] == [b"plain" if size is None else bytes(size) for size in sizes]
    assert [(row["queueOffset"], row["tags"]) for row in rows] == [(n, str(n)) for n in range(len(sizes))]


def _arrow_compressed(body: bytes, kind: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(body)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def test_only_wanted_tags_and_offsets_are_kept() -> None:
    stored = [
        plain(number, b"%d" % number, tag) for number, tag in enumerate([b"TAGS\x01a\x02", b"", b"TAGS\x01b\x02"] * 2)
    ]
    maker = BatchMaker(replace(NATIVE, expression=SourceExpression("a || c")), QueueRange(QUEUE, 0, 3), SCHEMA)
    assert one_batch(maker, Pulled([join_records(stored)], HOST)).column("body").to_pylist() == [b"0"]


ALL_BUT_MAPS = arrow_schema(spark_schema(include_properties=False))
PLAIN_STRINGS = st.sampled_from(
    [
        b"",
        b"TAGS\x01paid\x02UNIQ_KEY\x01u1\x02",
        b"UNIQ_KEY\x01u2\x02KEYS\x017",
        b"TAGS\x01a\x02TAGS\x01b\x01c\x02UNIQ_KEY\x01u",
    ]
)
MESSAGES = st.lists(
    st.tuples(PLAIN_STRINGS | property_strings, st.binary(max_size=30), st.booleans()), min_size=1, max_size=6
)


@given(
    MESSAGES,
    st.sampled_from(["*", "paid || b\x01c"]),
)
def test_columns_that_are_written_at_once_are_those_made_one_by_one(
    messages: list[tuple[bytes, bytes, bool]], expression: str
) -> None:
    stored = [
        plain(number, body, properties, born_host=V6 if is_v6 else HOST)
        for number, (properties, body, is_v6) in enumerate(messages)
    ]
    options, wanted = replace(NATIVE, expression=SourceExpression(expression)), QueueRange(QUEUE, 1, 5)
    pulled = Pulled([join_records(stored[:2]), join_records(stored[2:])], HOST)
    for schema in (ALL_BUT_MAPS, ALL_BUT_MAPS.empty_table().select(["queueOffset"]).schema):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("staticfire.pipeline.plain_columns.twin", None)
            slowly = one_batch(BatchMaker(options, wanted, schema), pulled)
        made = one_batch(BatchMaker(options, wanted, schema), pulled)
        made.validate(full=True)
        assert made.equals(slowly)


@pytest.mark.skipif(twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set")
def test_plain_answers_are_written_at_once() -> None:
    maker = PlainMaker(QUEUE, ALL_BUT_MAPS.names)
    usual = plain(0, b"x", b"UNIQ_KEY\x01u\x02TAGS\x01t\x02")
    assert maker.columns([join_records([usual, plain(1, b"", b"UNIQ_KEY\x01u")])]) is not None
    for other in (plain(1, b"x", b""), plain(1, b"x", "UNIQ_KEY\x01ü".encode()), plain(1, b"x", b"UNIQ_KEY\x02")):
        assert maker.columns([join_records([usual, other])]) is None
    assert PlainMaker(QUEUE, [*ALL_BUT_MAPS.names, "properties"]).columns([join_records([usual])]) is None


def test_schema_may_be_a_part_in_another_order() -> None:
    schema = SCHEMA.empty_table().select(["queueOffset", "body"]).schema
    batch = one_batch(
        BatchMaker(NATIVE, QueueRange(QUEUE, 0, 1), schema), Pulled([join_records([plain(0, b"x")])], HOST)
    )
    assert batch.to_pylist() == [{"queueOffset": 0, "body": b"x"}]


@given(st.lists(property_strings, max_size=5))
def test_properties_are_those_of_the_parser(strings: list[bytes]) -> None:
    table = PropertyTable(pa.array(strings, pa.binary()))
    parsed = [parse_properties(text) for text in strings]
    maps = table.maps(pa.map_(pa.string(), pa.string())).to_pylist()
    assert [dict(each) for each in maps] == parsed
    for name in ("TAGS", "a"):
        assert table.column(name).to_pylist() == [each.get(name) for each in parsed]


@given(records(), st.data())
def test_damaged_answers_are_refused_and_never_crash(stored: list[bytes], data: st.DataObject) -> None:
    body = bytearray(join_records(stored))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    answer = bytes(body[: data.draw(st.integers(0, len(body)))])
    for schema in (SCHEMA, ALL_BUT_MAPS):
        try:
            list(BatchMaker(NATIVE, QueueRange(QUEUE, 0, len(stored)), schema).batches(Pulled([answer], HOST)))
        except (ProtocolError, pa.ArrowInvalid):
            pass
