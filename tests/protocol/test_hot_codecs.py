"""What is written by hand is what the generic codecs write, and reads what they read."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, codec_for, hot_json
from staticfire.protocol.codecs.json import JsonCodec
from staticfire.protocol.codecs.native import NativeCodec
from staticfire.protocol.command import REQUESTS, Answer, Records, Request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.protocol.requests.offsets import OffsetAnswer
from staticfire.protocol.requests.pull import PullAnswer, PullMessage
from staticfire.protocol.requests.send import SendAnswer, SendMessageV2

STORE_HOST = pack_host("10.0.0.7", 10911)
BORN_HOST = pack_host("10.0.0.9", 4711)
HEAD_BYTES = 8

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ids = st.text("0123456789ABCDEF", min_size=32, max_size=32) | texts
numbers = st.integers(-(2**31), 2**31 - 1)
offsets = st.integers(-(2**63), 2**63 - 1)
opaques = st.integers(0, 2**31 - 1)

json, native = JsonCodec(), NativeCodec()
"""The generic codecs, without what is written by hand."""
mostly_absent = st.just(None) | st.just(None) | texts
sent_answers = st.builds(
    SendAnswer,
    st.none() | ids,
    st.none() | numbers,
    st.none() | offsets,
    st.none() | ids,
    st.none() | texts,
    st.none() | texts,
    mostly_absent,
    mostly_absent,
    code=st.sampled_from([0, 0, 10]),
    remark=mostly_absent,
)


def record(position: int, body: bytes) -> bytes:
    return pack_record(position, 1, 7, 2, 1, 0, 0, 0, 0, BORN_HOST, pack_topic("orders"), b"TAGS\x01a\x02", body)


records = st.lists(st.binary(max_size=20), max_size=4).map(
    lambda bodies: Records([record(index * 300, body) for index, body in enumerate(bodies)], len(bodies))
)
pull_answers = st.builds(
    PullAnswer,
    suggest_which_broker_id=numbers,
    next_begin_offset=offsets,
    min_offset=offsets,
    max_offset=offsets,
    offset_delta=st.none() | numbers,
    topic_sys_flag=st.none() | numbers,
    group_sys_flag=st.none() | numbers,
    forbidden_type=st.none() | numbers,
    code=st.sampled_from([0, 19, 20, 21]),
    remark=st.none() | texts | st.just("FOUND"),
    body=st.none() | records,
)


def decoded(frame: bytes, answer: Answer) -> Answer:
    """The command that is in a native frame."""
    header_end = HEAD_BYTES + int.from_bytes(frame[5:8], "big")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    envelope = native.decode_envelope(frame[HEAD_BYTES:header_end])
    assert envelope.flag == 1
    declaration = REQUESTS[10] if isinstance(answer, SendAnswer) else REQUESTS[11]
    return native.decode_answer(declaration.answer, envelope, frame[header_end:])


def written(codec_byte: int, answer: Answer, opaque: int) -> bytes:
    """The frame that programs send."""
    out: list[bytes] = []
    size = codec_for(codec_byte).write_answer(out, answer, opaque, STORE_HOST)
    frame = b"".join(out)
    assert size == len(frame)
    return frame


def sent(msg_id: str, transaction_id: str, region: str = "r") -> SendAnswer:
    return SendAnswer(msg_id, 1, 2, transaction_id, region, "true")


@given(sent_answers, opaques)
@example(sent("A" * 32, "é" * 16), 1)  # 32 bytes that aren't 32 characters
@example(sent("A" * 32, "B" * 32, "100 %d %"), 1)
@example(sent("A" * 32, 'quo"te'), 1)
def test_the_answer_to_a_stored_message_is_that_of_the_generic_codecs(answer: SendAnswer, opaque: int) -> None:
    assert written(JSON, answer, opaque) == json.encode_answer(answer, opaque)
    frame, expected = written(NATIVE, answer, opaque), native.encode_answer(answer, opaque)
    assert decoded(frame, answer) == decoded(expected, answer)
    assert frame[15:19] == expected[15:19] == opaque.to_bytes(4, "big")


@given(pull_answers, opaques)
def test_the_native_answer_to_a_pull_reads_as_the_generic_one(answer: Answer, opaque: int) -> None:
    frame = written(NATIVE, answer, opaque)
    expected = native.encode_answer(answer, opaque, STORE_HOST)
    assert decoded(frame, answer) == decoded(expected, answer)
    assert frame[15:19] == expected[15:19] == opaque.to_bytes(4, "big")


@given(pull_answers, opaques)
def test_the_json_answer_to_a_pull_has_the_bytes_of_the_generic_one(answer: Answer, opaque: int) -> None:
    expected = json.encode_answer(answer, opaque, STORE_HOST)
    assert written(JSON, answer, opaque) == expected


@pytest.mark.parametrize("codec_byte", [NATIVE, JSON])
def test_answers_of_a_burst_stand_one_behind_the_other(codec_byte: int) -> None:
    codec = codec_for(codec_byte)
    burst = [
        SendAnswer("A" * 32, 1, 2, "B" * 32, "DefaultRegion", "true"),
        PullAnswer(0, 2, 0, 2, None, 0, 0, remark="FOUND", body=Records([record(0, b"x")], 1)),
        OffsetAnswer(7),
        Answer(code=1, remark="no"),
    ]
    out = [b"before"]
    for opaque, answer in enumerate(burst):
        codec.write_answer(out, answer, opaque, STORE_HOST)
    single = [written(codec_byte, answer, opaque) for opaque, answer in enumerate(burst)]
    assert b"".join(out) == b"".join([b"before", *single])


@pytest.mark.parametrize("codec_byte", [NATIVE, JSON])
def test_a_pull_that_is_larger_than_a_frame_leaves_nothing_behind(codec_byte: int) -> None:
    large = record(0, bytes(FRAME_BYTES_MAX))
    answer = PullAnswer(0, 2, 0, 2, None, 0, 0, remark="FOUND", body=Records([large], 1))
    out = [b"before"]
    with pytest.raises(ProtocolError, match="over the limit"):
        codec_for(codec_byte).write_answer(out, answer, 1, STORE_HOST)
    assert out == [b"before"]


# -- reading JSON ------------------------------------------------------------------------------------------------------

sends = st.builds(
    SendMessageV2,
    producer_group=texts,
    topic=texts,
    default_topic=texts,
    default_topic_queue_nums=numbers,
    queue_id=numbers,
    sys_flag=numbers,
    born_timestamp=offsets,
    flag=numbers,
    properties=st.none() | texts,
    reconsume_times=st.none() | numbers,
    unit_mode=st.none() | st.booleans(),
    max_reconsume_times=st.none() | numbers,
    batch=st.none() | st.booleans(),
    bname=st.none() | texts,
)
pulls = st.builds(
    PullMessage, texts, texts, numbers, offsets, numbers, numbers, offsets, offsets, st.none() | texts, offsets
)


def header_of(request: Request, opaque: int) -> bytes:
    frame = json.encode_request(request, opaque, False)
    return frame[HEAD_BYTES : HEAD_BYTES + int.from_bytes(frame[5:8], "big")]


def read_hot(header: bytes) -> dict[str, Any] | None:
    read = hot_json.read_header(b"before" + header + b"behind", 6, 6 + len(header))
    return None if read is None else msgspec.structs.asdict(read.extFields)


def read_generic(header: bytes) -> dict[str, Any]:
    envelope = json.decode_envelope(header)
    return msgspec.structs.asdict(json.decode_request(REQUESTS[envelope.code], envelope, b"")) | {"body": None}


@given(sends | pulls, opaques)
def test_a_header_is_read_at_once_as_it_is_in_two_steps(request: Request, opaque: int) -> None:
    header = header_of(request, opaque)
    assert read_hot(header) == read_generic(header)
    read = hot_json.read_header(header, 0, len(header))
    assert read is not None
    envelope = json.decode_envelope(header)
    assert (read.code, read.opaque, read.flag, read.version) == (
        envelope.code, envelope.opaque, envelope.flag, envelope.version,
    )  # fmt: skip


LETTERS = b'"a":"g","b":"orders","c":"TBW102","d":4,"e":"1","f":"0","g":"1700000000000","h":"0"'


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":310,"extFields":{' + LETTERS + b'},"flag":0,"language":"JAVA","opaque":3,"version":479}',
        b'{"code":310,"opaque":"3","flag":"0","version":"479","extFields":{' + LETTERS + b',"k":"false"}}',
        b'{"code":310,"extFields":{"z":"unknown",' + LETTERS + b',"j":null},"more":[1,{}]}',
    ],
)
def test_what_clients_write_is_read_at_once(header: bytes) -> None:
    assert read_hot(header) == read_generic(header)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b'{"code":310}',
        b'{"code":310,"extFields":null}',
        b'{"code":310,"extFields":{"a":"g"}}',
        b'{"code":310,"extFields":{' + LETTERS + b',"e":"one"}}',
        b'{"code":310,"extFields":{' + LETTERS + b"}",
        b'{"code":310,"extFields":{' + LETTERS + b'},"code":10}',
        b'{"code":310,"extFields":{' + LETTERS.replace(b"orders", b"\xff") + b"}}",
        b'{"code":105,"extFields":{"topic":"orders"}}',
        b'{"opaque":1,"code":310,"extFields":{' + LETTERS + b"}}",
        b"{code:310,extFields:{}}",
    ],
)
def test_everything_else_is_left_to_the_generic_way(header: bytes) -> None:
    assert read_hot(header) is None


@given(st.binary(max_size=60), st.integers(0, 60))
def test_no_bytes_do_harm(noise: bytes, cut: int) -> None:
    header = header_of(PullMessage("g", "t", 0, 0, 32, 0), 1)
    read_hot(noise)
    read_hot(b'{"code":11,' + noise)
    read_hot(header[:cut] + noise + header[cut:])
