"""Frames in, handlers called, answers out in one write per read; wrong bytes end the connection or get a refusal."""

import asyncio
import random
from typing import Any

import pytest

from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import REQUESTS, Answer, Request
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, ConnectionLost, ProtocolError
from staticfire.protocol.first_bytes import recognise
from staticfire.protocol.requests.clients import NotifyConsumerIdsChanged
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset, OffsetAnswer
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher

NATIVE_CODEC, JSON_CODEC = codec_for(NATIVE), codec_for(JSON)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 5), "sockname": ("10.0.0.2", 6)})
        self.writes: list[bytes] = []
        self.closed = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def a_server() -> tuple[Connection, Wire, Dispatcher]:
    dispatcher = Dispatcher()
    dispatcher.handle(30, lambda call: OffsetAnswer(call.request.queue_id * 10))
    connection = Connection(dispatcher, NATIVE_CODEC, accepting=True)
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire, dispatcher


def answers(wire: Wire) -> list[Any]:
    """Read everything that was written as answers to GET_MAX_OFFSET."""
    data, found = b"".join(wire.writes), []
    while data:
        length, header_bytes = int.from_bytes(data[:4], "big"), int.from_bytes(data[5:8], "big")
        codec = codec_for(data[4])
        envelope = codec.decode_envelope(data[8 : 8 + header_bytes])
        found.append(codec.decode_answer(REQUESTS[30].answer, envelope, data[8 + header_bytes : 4 + length]))
        data = data[4 + length :]
    return found


def ask(request: Request, opaque: int = 1, codec: Any = NATIVE_CODEC, oneway: bool = False) -> bytes:
    frame: bytes = codec.encode_request(request, opaque, oneway)
    return frame


async def test_a_burst_of_requests_is_answered_with_one_write() -> None:
    connection, wire, _ = a_server()
    connection.data_received(
        b"".join(ask(GetMaxOffset("t", i), i, c) for i in range(5) for c in (NATIVE_CODEC, JSON_CODEC))
    )
    assert len(wire.writes) == 1
    assert [answer.offset for answer in answers(wire)] == [0, 0, 10, 10, 20, 20, 30, 30, 40, 40]


async def test_frames_may_be_cut_anywhere() -> None:
    whole = b"".join(ask(GetMaxOffset("t", i), i, c) for i in range(3) for c in (NATIVE_CODEC, JSON_CODEC))
    for cut in range(len(whole)):
        connection, wire, _ = a_server()
        connection.data_received(whole[:cut])
        connection.data_received(whole[cut:])
        assert [answer.offset for answer in answers(wire)] == [0, 0, 10, 10, 20, 20]


async def test_frames_may_come_byte_by_byte() -> None:
    connection, wire, _ = a_server()
    for byte in ask(GetMaxOffset("t", 7)) * 2:
        connection.data_received(bytes([byte]))
    assert [answer.offset for answer in answers(wire)] == [70, 70]


async def test_settle_runs_after_the_handlers_and_its_answers_share_their_write() -> None:
    connection, wire, dispatcher = a_server()
    kept: list[Call] = []
    dispatcher.handle(31, kept.append)

    def settle() -> None:
        for call in kept:
            call.answer(OffsetAnswer(99))

    dispatcher.settle = settle
    connection.data_received(ask(GetMinOffset("t", 1), 1) + ask(GetMaxOffset("t", 1), 2))
    assert len(wire.writes) == 1
    assert [answer.offset for answer in answers(wire)] == [10, 99]


def sends(count: int, codec: Any) -> bytes:
    """Return so many sends of 1 KiB in one read."""
    request = SendMessageV2("g", "t", "", 4, 0, 0, 0, 0, "UNIQ_KEY\x01u\x02", body=bytes(1024))
    return b"".join(codec.encode_request(request, opaque, False) for opaque in range(1, count + 1))


@pytest.mark.parametrize("codec", [NATIVE_CODEC, JSON_CODEC], ids=["native", "json"])
async def test_the_only_busy_connection_has_its_long_reads_settled_in_parts(codec: Any) -> None:
    connection, wire, dispatcher = a_server()
    other = Connection(dispatcher, NATIVE_CODEC, accepting=True)
    other.connection_made(Wire())
    kept: list[Call] = []
    bursts: list[int] = []
    dispatcher.handle(310, kept.append)

    def settle() -> None:
        bursts.append(len(kept))
        for call in kept:
            call.answer(Answer())
        kept.clear()

    dispatcher.settle = settle
    for _ in range(2):
        connection.data_received(sends(64, codec))
        first, *rest = bursts
        bursts.clear()
        wire.writes.clear()
    assert first < 64  # it was heard twice in a row
    assert first + sum(rest) == 64
    other.data_received(ask(GetMaxOffset("t", 1)))
    bursts.clear()
    connection.data_received(sends(64, codec))
    assert bursts == [64]
    assert len(wire.writes) == 1


async def test_a_coroutine_handler_answers_later() -> None:
    connection, wire, dispatcher = a_server()

    async def later(call: Call) -> Answer:
        await asyncio.sleep(0)
        return OffsetAnswer(5)

    dispatcher.handle(31, later)
    connection.data_received(ask(GetMinOffset("t", 1)))
    assert not wire.writes
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [answer.offset for answer in answers(wire)] == [5]
    await dispatcher.close()


async def test_what_a_handler_raises_is_its_answer() -> None:
    connection, wire, dispatcher = a_server()

    def refuse(call: Call) -> Answer:
        raise BrokerAnswer(16, "not today") if call.request.queue_id else RuntimeError("broken")

    dispatcher.handle(31, refuse)
    connection.data_received(ask(GetMinOffset("t", 1)) + ask(GetMinOffset("t", 0)))
    assert [(answer.code, answer.remark) for answer in answers(wire)] == [
        (16, "not today"),
        (1, "RuntimeError: broken"),
    ]


async def test_one_way_requests_are_never_answered() -> None:
    connection, wire, _ = a_server()
    connection.data_received(ask(GetMaxOffset("t", 1), oneway=True) + ask(NotifyConsumerIdsChanged("g"), oneway=True))
    assert not wire.writes


async def test_an_unknown_code_is_refused_by_name_and_the_connection_stays() -> None:
    connection, wire, _ = a_server()
    connection.data_received(ask(GetMinOffset("t", 1)) + ask(GetMinOffset("t", 1), codec=JSON_CODEC))
    assert [(answer.code, answer.remark) for answer in answers(wire)] == [
        (3, " request type 31 not supported (GET_MIN_OFFSET)")
    ] * 2
    assert not wire.closed


async def test_a_missing_field_is_refused_by_name_and_the_connection_stays() -> None:
    connection, wire, _ = a_server()
    header = b'{"code":30,"opaque":3,"extFields":{"topic":"t"}}'
    connection.data_received((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    (answer,) = answers(wire)
    assert answer.code == 1
    assert "GET_MAX_OFFSET" in str(answer.remark)
    assert "queueId" in str(answer.remark)
    assert not wire.closed


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC client: use the gRPC port, usually 8081"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"\xff" * 16, "not a frame"),
    ],
)
async def test_other_protocols_are_recognised(bytes_: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        recognise(bytes_)
    connection, wire, _ = a_server()
    connection.data_received(bytes_)
    assert wire.closed
    assert not wire.writes


@pytest.mark.parametrize(
    "frame", ["00000003 00000000", "00000010 00000040", "00000004 07000000", "00000008 00000004 7b7b7b7b"]
)
async def test_a_malformed_frame_closes_the_connection(frame: str) -> None:
    connection, wire, _ = a_server()
    connection.data_received(bytes.fromhex(frame))
    assert wire.closed
    assert not wire.writes


async def test_a_frame_over_the_limit_is_refused_before_its_body_is_read() -> None:
    connection, wire, _ = a_server()
    frame = bytearray(ask(GetMaxOffset("t", 1)))
    frame[:4] = (16 * 1024 * 1024).to_bytes(4, "big")
    connection.data_received(bytes(frame))
    (answer,) = answers(wire)
    assert answer.code == 13
    assert "16777216" in str(answer.remark)
    assert wire.closed


async def test_an_answer_reaches_the_requesting_client() -> None:
    client = Connection(Dispatcher(), NATIVE_CODEC, accepting=False)
    server, server_wire, _ = a_server()
    wire = Wire()
    client.connection_made(wire)
    first, second = client.ask(GetMaxOffset("t", 1), 1000), client.ask(GetMaxOffset("t", 2), 1000)
    await asyncio.sleep(0)
    assert len(wire.writes) == 1
    server.data_received(wire.writes[0])
    client.data_received(server_wire.writes[0])
    received: list[Any] = [await first, await second]
    assert [answer.offset for answer in received] == [10, 20]


async def test_a_lost_connection_fails_what_waits() -> None:
    client = Connection(Dispatcher(), NATIVE_CODEC, accepting=False)
    client.connection_made(Wire())
    waiting = client.ask(GetMaxOffset("t", 1), 1000)
    client.connection_lost(None)
    with pytest.raises(ConnectionLost, match="GET_MAX_OFFSET"):
        await waiting
    with pytest.raises(ConnectionLost):
        client.ask(GetMaxOffset("t", 1), 1000)


async def test_no_answer_in_time_is_a_timeout() -> None:
    client = Connection(Dispatcher(), NATIVE_CODEC, accepting=False)
    client.connection_made(Wire())
    with pytest.raises(AnswerTimeout, match=r"GET_MAX_OFFSET.*10\.0\.0\.1:5.*1 ms"):
        await client.ask(GetMaxOffset("t", 1), 1)


async def test_a_callback_gets_an_answer_within_the_read_that_brings_it() -> None:
    server, server_wire, _ = a_server()
    client, wire = Connection(Dispatcher(), NATIVE_CODEC, accepting=False), Wire()
    client.connection_made(wire)
    outcomes: list[Any] = []
    client.ask_for(GetMaxOffset("t", 1), 1000, outcomes.append)
    client.ask_for(GetMaxOffset("t", 2), 1000, outcomes.append)
    assert wire.writes == []
    client.flush()
    assert len(wire.writes) == 1
    server.data_received(wire.writes[0])
    client.data_received(server_wire.writes[0])
    assert [answer.offset for answer in outcomes] == [10, 20]
    client.ask_for(GetMaxOffset("t", 3), 1000, outcomes.append)
    client.connection_lost(None)
    assert isinstance(outcomes[2], ConnectionLost)


async def test_a_failure_to_handle_an_answer_harms_no_other_request() -> None:
    server, server_wire, _ = a_server()
    client, wire = Connection(Dispatcher(), NATIVE_CODEC, accepting=False), Wire()
    client.connection_made(wire)
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    client.ask_for(GetMaxOffset("t", 1), 1000, fail)
    second = client.ask(GetMaxOffset("t", 2), 1000)
    client.flush()
    server.data_received(wire.writes[0])
    client.data_received(server_wire.writes[0])
    assert (await second).code == 0
    assert not wire.closed
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]
    assert "GET_MAX_OFFSET" in reported[0]["message"]


async def test_a_peer_that_takes_no_answers_is_not_read_from() -> None:
    connection, wire, _ = a_server()
    connection.pause_writing()
    assert not wire.reading
    connection.resume_writing()
    await asyncio.sleep(0)
    assert wire.reading


async def test_half_a_million_mutated_bytes_raise_nothing() -> None:
    """Each round mutates a burst of real frames; the connection answers, closes or waits, and nothing else."""
    chance = random.Random(7)
    frames = [
        ask(request, i, codec)
        for codec in (NATIVE_CODEC, JSON_CODEC)
        for i, request in enumerate(
            (GetMaxOffset("t", 1), SendMessageV2("g", "t", "TBW102", 4, 0, 0, 0, 0, "TAGS\x01a\x02", body=b"x" * 50))
        )
    ]
    for _ in range(2_000):
        connection, _, _ = a_server()
        data = bytearray(b"".join(chance.choices(frames, k=3)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = chance.randrange(len(data))
        connection.data_received(bytes(data[:cut]))
        connection.data_received(bytes(data[cut:]))
        connection.connection_lost(None)
