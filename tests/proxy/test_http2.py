"""HTTP/2 without a network: rules that clients break, and bytes that are spoilt by chance."""

import random
import struct

import pytest
from hpack import Encoder

from staticfire.proxy.transport import frames
from staticfire.proxy.transport.call_events import CallData, CallOpened, CallReset
from staticfire.proxy.transport.calls import GrpcError
from staticfire.proxy.transport.first_bytes import Speaks, recognise
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.grpc_words import percent_encoded, timeout_ms
from staticfire.proxy.transport.header_block import HeaderDecoder, pack_field
from staticfire.proxy.transport.http2 import Http2
from staticfire.proxy.transport.limits import TransportLimits
from tests.fuzz.conversations import Conversations
from tests.proxy.h2_client import OPEN

pytestmark = pytest.mark.row("G3")

LIMITS = TransportLimits(streams_max=4, connection_window_bytes=100_000, stream_window_bytes=70_000)
BEGIN = frames.PREFACE + frames.settings_frame({})
BLOCK = Encoder().encode([*OPEN[:3], (":path", "/x"), *OPEN[3:]])
FLAGS = frames.END_HEADERS
MORE = frames.frame(frames.CONTINUATION, 0, 1, bytes(9_000))


def headers(stream_id: int, flags: int = FLAGS, block: bytes = BLOCK) -> bytes:
    return frames.frame(frames.HEADERS, flags, stream_id, block)


def data(stream_id: int, size: int, flags: int = 0) -> bytes:
    return frames.frame(frames.DATA, flags, stream_id, bytes(size))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", H2Code.PROTOCOL_ERROR),
        (frames.PREFACE + headers(1), H2Code.PROTOCOL_ERROR),
        (BEGIN + headers(2), H2Code.PROTOCOL_ERROR),
        (BEGIN + data(1, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + data(0, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.rst_stream(1, H2Code.CANCEL), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.window_update(1, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.window_update(0, 0), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.window_update(0, frames.WINDOW_MAX), H2Code.FLOW_CONTROL_ERROR),
        (BEGIN + frames.frame(frames.PING, 0, 0, b"1234567"), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + frames.frame(frames.PING, 0, 1, b"12345678"), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.SETTINGS, 0, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.SETTINGS, 0, 0, b"12345"), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + frames.frame(frames.SETTINGS, frames.ACK, 0, bytes(6)), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + frames.settings_frame({frames.INITIAL_WINDOW_SIZE: 2**31}), H2Code.FLOW_CONTROL_ERROR),
        (BEGIN + frames.settings_frame({frames.MAX_FRAME_SIZE: 1}), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.settings_frame({frames.ENABLE_PUSH: 2}), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.PUSH_PROMISE, 0, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.GOAWAY, 0, 0, b"1"), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + frames.frame(frames.PRIORITY, 0, 0, bytes(5)), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.PRIORITY, 0, 3, b"\x80\x00\x00\x03\x10"), H2Code.PROTOCOL_ERROR),
        (BEGIN + headers(1, FLAGS | frames.HAS_PRIORITY, b"\x00\x00\x00\x01\x10" + BLOCK), H2Code.PROTOCOL_ERROR),
        (BEGIN + frames.frame(frames.CONTINUATION, FLAGS, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + headers(1, flags=0) + data(1, 1), H2Code.PROTOCOL_ERROR),
        (BEGIN + headers(1, flags=0) + frames.frame(frames.CONTINUATION, 0, 1) * 2, H2Code.ENHANCE_YOUR_CALM),
        (
            BEGIN + headers(1, flags=0) + MORE * 9,
            H2Code.ENHANCE_YOUR_CALM,
        ),
        (BEGIN + headers(1, block=b"\xff\xff\xff\xff\xff\xff"), H2Code.COMPRESSION_ERROR),
        (BEGIN + headers(1, block=b"\x80"), H2Code.COMPRESSION_ERROR),
        (BEGIN + headers(1, block=b"\xfe"), H2Code.COMPRESSION_ERROR),
        (BEGIN + headers(1, block=b"\x3f\xe1\x3f"), H2Code.COMPRESSION_ERROR),
        (BEGIN + headers(1, block=b"\x00\x8a\xff\xff"), H2Code.COMPRESSION_ERROR),
        (BEGIN + headers(1, FLAGS | frames.PADDED, b"\x09abc"), H2Code.PROTOCOL_ERROR),
        (BEGIN + headers(1, FLAGS | frames.HAS_PRIORITY, b"abc"), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + frames.frame(frames.DATA, 0, 1, bytes(200_000)), H2Code.FRAME_SIZE_ERROR),
        (BEGIN + headers(1) + data(1, 101_000), H2Code.FLOW_CONTROL_ERROR),
        (BEGIN + headers(1) + frames.rst_stream(1, H2Code.CANCEL) + data(1, 1), H2Code.STREAM_CLOSED),
        (BEGIN + headers(1) + frames.rst_stream(1, H2Code.CANCEL) + headers(1), H2Code.STREAM_CLOSED),
        (BEGIN + headers(5) + headers(3), H2Code.PROTOCOL_ERROR),
    ],
    ids=lambda value: value.name if isinstance(value, H2Code) else "",
)
def test_a_client_that_breaks_a_rule_of_the_connection_gets_an_error(said: bytes, code: H2Code) -> None:
    http2 = Http2(LIMITS)
    with pytest.raises(Http2Fault) as caught:
        http2.receive(said)
    assert caught.value.code == code
    assert str(caught.value)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (data(1, 69_000) + data(1, 2_000), H2Code.FLOW_CONTROL_ERROR),
        (data(1, 1, frames.END_STREAM) + data(1, 1), H2Code.STREAM_CLOSED),
        (headers(1), H2Code.PROTOCOL_ERROR),
        (frames.window_update(1, 0), H2Code.PROTOCOL_ERROR),
        (frames.window_update(1, frames.WINDOW_MAX), H2Code.FLOW_CONTROL_ERROR),
        (frames.frame(frames.PRIORITY, 0, 1, b"123"), H2Code.FRAME_SIZE_ERROR),
    ],
)
def test_a_client_that_breaks_a_rule_of_a_stream_loses_that_stream(said: bytes, code: H2Code) -> None:
    http2 = Http2(LIMITS)
    http2.receive(BEGIN + headers(1) + headers(3))
    http2.outflow.flush()
    events = http2.receive(said)
    assert isinstance(events[-1], CallReset)
    assert frames.rst_stream(1, code) in http2.outflow.flush()
    assert list(http2.streams) == [3]


def test_what_was_under_way_when_a_stream_ended_has_no_effect() -> None:
    http2 = Http2(LIMITS)
    (opened,) = http2.receive(BEGIN + headers(1))
    assert isinstance(opened, CallOpened)
    http2.outflow.end(opened.stream, pack_field("grpc-status", b"0"))
    late = data(1, 60_000) + frames.window_update(1, 5) + headers(1, FLAGS | 1) + frames.rst_stream(1, H2Code.CANCEL)
    assert http2.receive(late) == []
    assert frames.window_update(0, 60_000) in http2.outflow.flush()  # The connection's window is the client's again.


@pytest.mark.parametrize("message", [b"", b"paid"])
def test_a_response_without_data_is_one_header_block(message: bytes) -> None:
    http2 = Http2(LIMITS)
    (opened,) = http2.receive(BEGIN + headers(1, FLAGS | frames.END_STREAM))
    assert isinstance(opened, CallOpened)
    http2.outflow.flush()
    first, last = pack_field(":status", b"200"), pack_field("grpc-status", b"0")
    opened.stream.first_fields = first
    if message:
        http2.outflow.answer(opened.stream, message)
    http2.outflow.end(opened.stream, last)
    separate = headers(1, FLAGS, first) + frames.frame(frames.DATA, 0, 1, message)
    end = headers(1, FLAGS | frames.END_STREAM, last if message else first + last)
    assert http2.outflow.flush() == (separate if message else b"") + end


def test_nothing_comes_after_a_reset_of_a_stream_that_had_been_answered() -> None:
    http2 = Http2(LIMITS)
    (opened,) = http2.receive(BEGIN + headers(1))
    assert isinstance(opened, CallOpened)
    http2.outflow.end(opened.stream, pack_field("grpc-status", b"0"))
    with pytest.raises(Http2Fault, match="HEADERS on stream 1"):
        http2.receive(frames.rst_stream(1, H2Code.CANCEL) + headers(1, FLAGS | 1))


@pytest.mark.parametrize(
    ("trailers", "code"),
    [
        (headers(1, FLAGS | 1, Encoder().encode([("x-sum", "1")])), None),
        (headers(1, FLAGS | 1), H2Code.PROTOCOL_ERROR),
        (headers(1, FLAGS, Encoder().encode([("x-sum", "1")])), H2Code.PROTOCOL_ERROR),
    ],
    ids=["fine", "pseudo-header", "no_end"],
)
def test_trailers_end_a_request_or_its_stream(trailers: bytes, code: H2Code | None) -> None:
    http2 = Http2(LIMITS)
    http2.receive(BEGIN + headers(1))
    http2.outflow.flush()
    (event,) = http2.receive(trailers)
    assert isinstance(event, CallData if code is None else CallReset)
    assert code is None or frames.rst_stream(1, code) in http2.outflow.flush()


def test_nothing_comes_behind_the_end_of_a_clients_side() -> None:
    http2 = Http2(LIMITS)
    (opened,) = http2.receive(BEGIN + headers(1, FLAGS | frames.END_STREAM))
    assert isinstance(opened, CallOpened)
    http2.outflow.end(opened.stream, pack_field("grpc-status", b"0"))
    with pytest.raises(Http2Fault, match="after its end"):
        http2.receive(data(1, 1))


@pytest.mark.parametrize(
    "fields",
    [
        [*OPEN, (":path", "/x")],
        [*OPEN[:3], (":path", "")],
        [*OPEN[:3]],
        [*OPEN[:3], (":path", "/x"), (":path", "/y")],
        [*OPEN[:3], (":path", "/x"), (":status", "200")],
        [*OPEN[:3], (":path", "/x"), ("X-Up", "1")],
        [*OPEN[:3], (":path", "/x"), ("connection", "close")],
        [*OPEN[:3], (":path", "/x"), ("te", "gzip")],
        [*OPEN[1:3], (":path", "/x")],
    ],
)
def test_a_call_with_malformed_fields_is_reset_and_reaches_no_handler(fields: list[tuple[str, str]]) -> None:
    http2 = Http2(LIMITS)
    http2.receive(BEGIN)
    http2.outflow.flush()
    assert http2.receive(headers(1, FLAGS | frames.END_STREAM, Encoder().encode(fields))) == []
    assert frames.rst_stream(1, H2Code.PROTOCOL_ERROR) in http2.outflow.flush()
    assert not http2.streams
    (opened,) = http2.receive(headers(3))
    assert isinstance(opened, CallOpened)


def test_padding_and_priority_are_taken_off() -> None:
    http2 = Http2(LIMITS)
    block = b"\x03" + bytes(5) + BLOCK + bytes(3)
    padded = frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"\x02abc\x00\x00")
    opened, came = http2.receive(BEGIN + headers(1, FLAGS | frames.PADDED | frames.HAS_PRIORITY, block) + padded)
    assert isinstance(opened, CallOpened)
    assert isinstance(came, CallData)
    assert (opened.fields[":path"], came.data, came.ended) == ("/x", b"abc", True)


def test_fields_are_those_that_hpack_packed() -> None:
    chance, encoder, decoder = random.Random(7), Encoder(), HeaderDecoder(100_000)
    names = [f"x-{number}" for number in range(40)] + [":path", "te", "user-agent"]
    for turn in range(300):
        if turn % 50 == 49:
            encoder.header_table_size = chance.choice([0, 100, 4_096])
        fields = {name: chance.choice(["", "a" * 200, f"{chance.random()}", "ü"]) for name in chance.sample(names, 9)}
        block = encoder.encode(list(fields.items()), huffman=chance.random() < 0.5)
        assert decoder.decode(block) == (fields, True, tuple(fields))


def test_fields_over_their_limit_are_left_out() -> None:
    encoder, decoder = Encoder(), HeaderDecoder(200)
    assert decoder.decode(encoder.encode([("a", "x" * 100), ("b", "y" * 100)])) == ({"a": "x" * 100}, False, ("a",))
    assert decoder.decode(encoder.encode([("b", "y" * 100)])) == ({"b": "y" * 100}, True, ("b",))


def test_spoilt_bytes_are_faults_and_nothing_else() -> None:
    conversations = Conversations(seed=1)
    for _ in range(1_500):
        conversations.read()
    assert 300 < 1_500 - conversations.seen["fine"] < 1_400


@pytest.mark.parametrize(
    ("first", "speaks", "words"),
    [
        (b"\x16\x03\x01", Speaks.TLS, ""),
        (b"PRI * ", Speaks.HTTP_2, ""),
        (b"POST /x", Speaks.OTHER, "HTTP/1"),
        (b"GET / HTTP/1.1\r\n", Speaks.OTHER, "HTTP/1"),
        (b"PROXY TCP4 ", Speaks.OTHER, "HAProxy"),
        (b"\r\n\r\n\x00\r\nQUIT\n", Speaks.OTHER, "HAProxy"),
        (struct.pack(">II", 100, 60) + b"{", Speaks.OTHER, "remoting"),
        (b"SSH-2.0", Speaks.OTHER, "53 53 48"),
    ],
)
def test_who_speaks_is_recognised_as_soon_as_it_is_clear(first: bytes, speaks: Speaks, words: str) -> None:
    found = recognise(first)
    assert found is not None
    assert (found.speaks, words in found.words) == (speaks, True)
    assert all(recognise(first[:size]) in (None, found) for size in range(1, len(first)) if speaks is not Speaks.OTHER)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("3S", 3_000), ("250m", 250), ("1H", 3_600_000), ("99999999H", 99_999_999 * 3_600_000), ("1500u", 1), ("0n", 0)],
)
def test_deadlines(text: str, ms: int) -> None:
    assert timeout_ms({"grpc-timeout": text}) == ms


@pytest.mark.parametrize("text", ["", "S", "3", "-3S", "3s", "123456789S", "٣S", "1 S"])
def test_deadlines_that_are_none(text: str) -> None:
    with pytest.raises(GrpcError, match="grpc-timeout"):
        timeout_ms({"grpc-timeout": text})


def test_words_of_an_error_are_packed_as_grpc_does() -> None:
    assert percent_encoded("100 % – 中\n") == b"100 %25 %E2%80%93 %E4%B8%AD%0A"
