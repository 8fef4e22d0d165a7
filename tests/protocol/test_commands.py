"""Every declared command travels in every codec and comes out as it went in; any other bytes are a ProtocolError."""

from contextlib import suppress
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, Codec, Envelope, codec_for
from staticfire.protocol.command import REQUESTS, Answer, Declaration, RecordBatch, Records, Request, Shape
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.numbers import INT64_MAX, INT64_MIN, Int32, Int64
from staticfire.protocol.record import decode_record, pack_record, pack_topic
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.pop import PollingInfo
from staticfire.protocol.requests.send import SendAnswer, SendMessage

STORE_HOST = pack_host("10.0.0.7", 10911)
CODECS = [codec_for(NATIVE), codec_for(JSON), codec_for(ROCKETMQ)]
BINARY_CODE_MAX = 32_767
NAMES = {NATIVE: "msgpack", JSON: "json", ROCKETMQ: "rocketmq"}
MUTATED_BYTES_MAX = 2_000
few_examples = settings(max_examples=2)
# Of each of many commands. `make test-fuzz` reads 200,000 spoilt frames of each codec.
DECLARATIONS = sorted(REQUESTS.values(), key=lambda declaration: declaration.code)
each_declaration = pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda declaration: declaration.name)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**31), 2**31 - 1)
mutations = st.lists(st.tuples(st.integers(0, MUTATED_BYTES_MAX), st.integers(0, 255)), min_size=1, max_size=4)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: numbers,
    Int32: numbers,
    Int64: numbers | st.integers(INT64_MIN, INT64_MAX),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
}


@cache
def fields_of(shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
    """Values for the header fields: by their types; optional ones are sometimes left out."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(shape.command)}
    return st.fixed_dictionaries({name: value_of(kinds[name]) for name in shape.fields})


def value_of(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{one.name: value_of(one.type) for one in msgspec.structs.fields(kind) if one.required})
    if get_origin(kind) is list:
        return st.lists(value_of(get_args(kind)[0]), max_size=2)
    options = (kind,) if kind in PLAIN else kind.__args__
    return st.one_of([PLAIN[option] for option in options])


@cache
def body_of(shape: Shape) -> st.SearchStrategy[Any]:
    """A body of the declared type; records and lists of structs have tests of their own."""
    kind = shape.body_type
    if kind is bytes:
        return st.binary(max_size=40)
    if kind is Records or isinstance(kind, type) is False:
        return st.none()
    required = {field.name: value_of(field.type) for field in msgspec.structs.fields(kind) if field.required}
    plain = {name: strategy for name, strategy in required.items() if name != "broker_addrs"}
    return st.none() | st.builds(kind, **plain) if len(plain) == len(required) else st.none()


def codecs_of(declaration: Declaration) -> list[Codec]:
    """The codecs that a request can have. All are tried with each example: to find one takes longer than to try it."""
    return [codec for codec in CODECS if codec.number != ROCKETMQ or declaration.code <= BINARY_CODE_MAX]


def without_empty_texts(command: Request | Answer) -> dict[str, Any]:
    """What is compared: RocketMQ's JSON knows no difference between no body and an empty one."""
    values = msgspec.structs.asdict(command)
    values["body"] = values["body"] or None
    values["remark"] = values["remark"] or None
    return values


def read(codec: Codec, frame: bytes) -> tuple[Envelope, bytes]:
    header_bytes = int.from_bytes(frame[5:8], "big")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4] == codec.number
    return codec.decode_envelope(frame[8 : 8 + header_bytes]), frame[8 + header_bytes :]


@each_declaration
@few_examples
@given(st.data())
def test_a_request_comes_out_as_it_went_in_and_a_mutated_one_is_refused_or_read(
    declaration: Declaration, data: st.DataObject
) -> None:
    shape = declaration.request
    unchecked = {"body_crc32": 0} if "body_crc32" in shape.fields else {}
    request: Any = shape.command(**data.draw(fields_of(shape)) | unchecked, body=data.draw(body_of(shape)))
    changes = data.draw(mutations)
    for codec in codecs_of(declaration):
        frame = codec.encode_request(request, 77, oneway=True)
        envelope, body = read(codec, frame)
        assert (envelope.code, envelope.opaque, envelope.flag) == (declaration.code, 77, 2), codec
        again = codec.decode_request(declaration, envelope, body)
        assert isinstance(again, shape.command), codec
        assert without_empty_texts(again) == without_empty_texts(request), codec
        read_mutated(codec, declaration, frame, changes)


def read_mutated(codec: Codec, declaration: Declaration, frame: bytes, changes: list[tuple[int, int]]) -> None:
    mutated = bytearray(frame)
    for place, value in changes:
        mutated[8 + place % (len(frame) - 8)] = value
    header_bytes = int.from_bytes(mutated[5:8], "big")
    with suppress(ProtocolError):
        envelope = codec.decode_envelope(bytes(mutated[8 : 8 + header_bytes]))
        codec.decode_request(declaration, envelope, bytes(mutated[8 + header_bytes :]))


@each_declaration
@few_examples
@given(st.data())
def test_an_answer_comes_out_as_it_went_in(declaration: Declaration, data: st.DataObject) -> None:
    shape = declaration.answer
    code, remark = data.draw(st.integers(0, 1500)), data.draw(st.none() | texts)
    command: Any = shape.command
    answer = command(**data.draw(fields_of(shape)), body=data.draw(body_of(shape)), code=code, remark=remark)
    for codec in CODECS:
        envelope, body = read(codec, codec.encode_answer(answer, 5, STORE_HOST))
        assert (envelope.code, envelope.opaque, envelope.flag) == (code, 5, 1), codec
        again = codec.decode_answer(shape, envelope, body)
        assert without_empty_texts(again) == without_empty_texts(answer), codec


@pytest.mark.parametrize("codec", CODECS, ids=[NAMES[codec.number] for codec in CODECS])
def test_records_travel_as_slices_of_the_log_and_arrive_one_by_one(codec: Codec) -> None:
    host, topic = pack_host("10.0.0.9", 4711), pack_topic("orders")
    stored = [pack_record(i * 300, 1, i, 2, 1, 0, 0, 0, 0, host, topic, b"TAGS\x01a\x02", b"%d" % i) for i in range(3)]
    declaration = REQUESTS[11]
    answer: Any = declaration.answer.command(body=Records([stored[0] + stored[1], stored[2]], 3))
    envelope, body = read(codec, codec.encode_answer(answer, 1, STORE_HOST))
    batch = codec.decode_answer(declaration.answer, envelope, body).body
    assert isinstance(batch, RecordBatch)
    assert [record.body for record in batch.records] == [b"0", b"1", b"2"]
    assert [record.log_position for record in batch.records] == [0, 300, 600]
    assert [record.properties for record in batch.records] == [decode_record(one).properties for one in stored]
    assert batch.store_hosts == (None if codec.number == NATIVE else [STORE_HOST] * 3)


@pytest.mark.row("E1")
def test_the_bytes_of_a_native_request() -> None:
    frame = codec_for(NATIVE).encode_request(GetMaxOffset("orders", 3), 258, oneway=False)
    assert frame == bytes.fromhex(
        "00000021 0200001d"  # length; codec 2, header of 29 bytes
        "97 ce0000001e ce00000102 00 cd01df 03 c0"  # code 30, opaque 258, no flag, version 479, Python, no remark
        "95 a66f7264657273 03 c0 c0 c0"  # orders, 3, committed, bname and lo left to the broker
    )


@pytest.mark.row("E1")
def test_the_bytes_of_a_json_answer() -> None:
    answer = SendAnswer("0A000007000029A30000000000000000", 3, 9, "AB12", "DefaultRegion", "true")
    frame = codec_for(JSON).encode_answer(answer, 12, STORE_HOST)
    header = (
        b'{"code":0,"extFields":{"msgId":"0A000007000029A30000000000000000","queueId":"3","queueOffset":"9",'
        b'"transactionId":"AB12","MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,"language":"PYTHON",'
        b'"opaque":12,"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert frame == (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def test_a_missing_field_is_named() -> None:
    declaration = REQUESTS[30]
    for codec in CODECS:
        fields = msgspec.msgpack.encode(["orders"]) if codec.number == NATIVE else b'{"topic":"orders"}'
        with pytest.raises(ProtocolError, match=r"GET_MAX_OFFSET.*queueId"):
            codec.decode_request(declaration, Envelope(30, 1, 0, 0, 0, None, fields), b"")


def test_a_wrong_type_is_named() -> None:
    declaration = REQUESTS[30]
    for codec in CODECS:
        fields = msgspec.msgpack.encode(["t", "x"]) if codec.number == NATIVE else b'{"topic":"t","queueId":"x"}'
        with pytest.raises(ProtocolError, match="queueId"):
            codec.decode_request(declaration, Envelope(30, 1, 0, 0, 0, None, fields), b"")


def test_the_bytes_of_a_rocketmq_request() -> None:
    frame = codec_for(ROCKETMQ).encode_request(GetMaxOffset("orders", 3), 258, oneway=False)
    assert frame == bytes.fromhex(
        "00000038 01000034"  # length; codec 1, header of 52 bytes
        "001e 03 01df 00000102 00000000 00000000"  # code 30, Python, version 479, opaque 258, no flag, no remark
        "0000001f"  # 31 bytes of fields
        "0005 746f706963 00000006 6f7264657273"  # topic: orders
        "0007 71756575654964 00000001 33"  # queueId: 3
    )


def test_a_code_that_a_rocketmq_header_cant_carry() -> None:
    with pytest.raises(ProtocolError, match="code 200055 doesn't fit into a ROCKETMQ header"):
        codec_for(ROCKETMQ).encode_request(PollingInfo("g", "orders", 0), 1, oneway=False)


@pytest.mark.parametrize(
    "header",
    [
        "001e 03 01df 00000102 00000000 00000000 00000009 0005 746f706963",  # fields end within a text's length
        "001e 03 01df 00000102 00000000 00000000 0000ffff 0005 746f706963",  # fields are longer than the header
        "001e 03 01df 00000102 00000000 7fffffff",  # so is the remark
        "001e 03 01df 00000102 00000000 00000001 ff 00000000",  # a remark that isn't UTF-8
        "001e 03 01df",
    ],
)
def test_a_rocketmq_header_whose_lengths_lie_is_refused(header: str) -> None:
    with pytest.raises(ProtocolError, match="header"):
        codec_for(ROCKETMQ).decode_envelope(bytes.fromhex(header))


def test_a_rocketmq_header_with_negative_lengths_has_no_remark_and_no_fields() -> None:
    header = bytes.fromhex("001e 7f 01df 00000102 00000002 ffffffff ffffffff")
    assert codec_for(ROCKETMQ).decode_envelope(header) == Envelope(30, 258, 2, 479, 127, None, None)


def test_the_letters_of_version_2_are_read() -> None:
    fields = b'{"a":"g","b":"orders","c":"TBW102","d":4,"e":"1","f":"0","g":"1700000000000","h":"0","n":"b"}'
    request = codec_for(JSON).decode_request(REQUESTS[310], Envelope(310, 1, 0, 0, 0, None, fields), b"body")
    assert isinstance(request, SendMessage)
    assert (request.topic, request.default_topic_queue_nums, request.queue_id, request.bname) == ("orders", 4, 1, "b")


@pytest.mark.parametrize("codec", CODECS, ids=[NAMES[codec.number] for codec in CODECS])
@given(st.binary(max_size=80))
def test_random_headers_are_refused_or_read(codec: Codec, header: bytes) -> None:
    try:
        envelope = codec.decode_envelope(header)
        for code in (10, 11, 34, 103):
            codec.decode_request(REQUESTS[code], envelope, header)
    except ProtocolError:
        pass
