"""Peers that take no answers, and peers whose frames never become whole: neither fills our memory."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import OUT_BYTES_MAX, WRITE_BUFFER_BYTES_MAX, Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.live import live_machine
from staticfire.runtime.server import Server, ServerLimits
from staticfire.runtime.unfinished import UnfinishedFrames

NATIVE_CODEC, JSON_CODEC = codec_for(NATIVE), codec_for(JSON)
ANSWER_BYTES = 200 * 1024
MEMORY_BYTES_MAX = WRITE_BUFFER_BYTES_MAX + OUT_BYTES_MAX + 2 * ANSWER_BYTES


class SlowWire(asyncio.Transport):
    """A transport whose peer takes nothing until it is told to."""

    def __init__(self, port: int = 5) -> None:
        super().__init__({"peername": ("10.0.0.1", port), "sockname": ("10.0.0.2", 6)})
        self.buffer = bytearray()
        self.taken = bytearray()
        self.most_bytes = 0
        self.is_paused = False
        self.reading = True
        self.closed = False
        self.connection: Connection | None = None
        self.written = asyncio.Event()

    def write(self, data: Any) -> None:
        self.buffer += data
        self.written.set()
        self.most_bytes = max(self.most_bytes, len(self.buffer))
        if len(self.buffer) > WRITE_BUFFER_BYTES_MAX and not self.is_paused and self.connection is not None:
            self.is_paused = True
            self.connection.pause_writing()

    async def take(self) -> None:
        """Take what is there, and let the other side go on."""
        self.taken += self.buffer
        self.buffer.clear()
        if self.is_paused and self.connection is not None:
            self.is_paused = False
            self.connection.resume_writing()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def a_connection(dispatcher: Dispatcher, owner: Any = None) -> tuple[Connection, SlowWire]:
    connection, wire = Connection(dispatcher, NATIVE_CODEC, accepting=True, owner=owner), SlowWire()
    connection.connection_made(wire)
    wire.connection = connection
    return connection, wire


def opaques(data: bytes | bytearray) -> list[int]:
    """Return which requests were answered, in the order of the answers."""
    found, at = [], 0
    while at < len(data):
        length, header_bytes = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 5 : at + 8], "big")
        codec = codec_for(data[at + 4])
        found.append(codec.decode_envelope(bytes(data[at + 8 : at + 8 + header_bytes])).opaque)
        at += 4 + length
    return found


@pytest.mark.parametrize("codec", [NATIVE_CODEC, JSON_CODEC], ids=["native", "json"])
async def test_requests_of_one_read_wait_while_the_answers_are_not_read(codec: Any) -> None:
    dispatcher = Dispatcher()
    dispatcher.handle(30, lambda call: Answer(body=bytes(ANSWER_BYTES)))
    connection, wire = a_connection(dispatcher)
    frames = [codec.encode_request(GetMaxOffset("t", 1), opaque, False) for opaque in range(400)]
    connection.data_received(b"".join(frames[:300]))
    assert not wire.reading
    connection.data_received(b"".join(frames[300:]))  # What was on its way already.
    turns = 0
    while wire.buffer:
        await wire.take()
        turns += 1
    assert opaques(wire.taken) == list(range(400))
    assert wire.most_bytes <= MEMORY_BYTES_MAX
    assert turns > 10
    assert wire.reading


async def test_a_peer_that_goes_away_meanwhile_leaves_nothing() -> None:
    dispatcher, called = Dispatcher(), 0

    def handle(_: Call) -> Answer:
        nonlocal called
        called += 1
        return Answer(body=bytes(ANSWER_BYTES))

    dispatcher.handle(30, handle)
    connection, _ = a_connection(dispatcher)
    connection.data_received(NATIVE_CODEC.encode_request(GetMaxOffset("t", 1), 1, False) * 300)
    before = called
    connection.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == before < 60


async def test_held_pulls_that_wake_up_wait_as_well(tmp_path: Path) -> None:
    settings = BrokerSettings(store_path_root_dir=str(tmp_path), listen_port=0, listen_host="127.0.0.1")
    async with Broker(live_machine(), settings) as broker:
        server = Server(live_machine(), broker.dispatcher)
        producer, its_wire = a_connection(broker.dispatcher, server)
        send = SendMessageV2("g", "t", "TBW102", 4, 0, 0, 0, 0, "UNIQ_KEY\x01u\x02", body=bytes(ANSWER_BYTES))
        frame = NATIVE_CODEC.encode_request(send, 1, False)
        producer.data_received(frame)
        await its_wire.written.wait()
        consumer, wire = a_connection(broker.dispatcher, server)
        pulls = [
            PullMessage("g", "t", 0, 1, 1, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, 15_000, "*", 0, "TAG")
            for _ in range(100)
        ]
        consumer.data_received(
            b"".join(NATIVE_CODEC.encode_request(pull, opaque, False) for opaque, pull in enumerate(pulls))
        )
        assert broker.tables.held.count == 100
        producer.data_received(frame)
        while wire.buffer:
            await wire.take()
        assert sorted(opaques(wire.taken)) == list(range(100))
        assert wire.most_bytes <= MEMORY_BYTES_MAX
        for connection in (producer, consumer):
            connection.connection_lost(None)


# -- frames that don't become whole ----------------------------------------------------------------------------------


def test_above_the_limit_the_oldest_unfinished_frames_go() -> None:
    unfinished: UnfinishedFrames[str] = UnfinishedFrames(bytes_max=100, frame_ms_max=1_000)
    assert unfinished.note("a", 40, True, UptimeMs(0)) == []
    assert unfinished.note("b", 40, True, UptimeMs(1)) == []
    assert unfinished.note("a", 20, True, UptimeMs(2)) == []  # Its frame became whole, and another one has begun.
    assert unfinished.note("c", 41, True, UptimeMs(3)) == ["b"]
    assert unfinished.total_bytes == 61
    assert unfinished.note("c", 101, False, UptimeMs(4)) == ["a", "c"]
    assert unfinished.total_bytes == 0


def test_a_frame_is_overdue_from_its_first_bytes_on_however_it_grows() -> None:
    unfinished: UnfinishedFrames[str] = UnfinishedFrames(bytes_max=100, frame_ms_max=1_000)
    unfinished.note("a", 1, True, UptimeMs(0))
    unfinished.note("b", 1, True, UptimeMs(500))
    unfinished.note("a", 2, False, UptimeMs(900))
    assert unfinished.overdue(UptimeMs(999)) == []
    assert unfinished.overdue(UptimeMs(1_000)) == ["a"]
    unfinished.note("a", 0, True, UptimeMs(1_001))
    assert unfinished.overdue(UptimeMs(1_499)) == []
    assert unfinished.total_bytes == 1


async def test_unfinished_frames_of_many_connections_have_one_limit() -> None:
    dispatcher = Dispatcher()
    server = Server(live_machine(), dispatcher, limits=ServerLimits(unfinished_bytes_max=40 * 1024 * 1024))
    peers = [a_connection(dispatcher, server) for _ in range(20)]
    begin = (15 * 1024 * 1024).to_bytes(4, "big") + (64).to_bytes(4, "big")
    piece = bytes(1024 * 1024)
    references = sys.getrefcount(piece)
    for connection, wire in peers:
        connection.data_received(begin)
        for _ in range(14):
            if not wire.closed:
                connection.data_received(piece)
    # Each that was left open has sent 14 MiB.
    assert sum(wire.closed for _, wire in peers) == 18
    # What the others had sent is dropped at once: their connections may take long to end.
    assert sys.getrefcount(piece) - references == 2 * 14
    for connection, _ in peers:
        connection.connection_lost(None)
    # What the two had sent isn't counted any more: there is room for two others.
    others = [a_connection(dispatcher, server) for _ in range(2)]
    for connection, wire in others:
        connection.data_received(begin)
        for _ in range(14):
            connection.data_received(bytes(1024 * 1024))
        assert not wire.closed
        connection.connection_lost(None)


async def test_a_frame_that_trickles_in_for_too_long_ends_its_connection() -> None:
    dispatcher = Dispatcher()
    server = Server(live_machine(), dispatcher, limits=ServerLimits(frame_ms_max=0))
    connection, wire = a_connection(dispatcher, server)
    connection.data_received(b"\x00\x00\x10\x00\x00\x00\x00\x10")
    assert not wire.closed
    server.close_slow()
    assert wire.closed
