"""A long response is written to the socket without a copy. What the socket doesn't take follows, in order."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import answer_shape
from staticfire.protocol.requests.replication import CopyAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.long_answers import send_long

CODEC = codec_for(NATIVE)
BODY = bytes(range(256)) * 4096
OPAQUE = 7


class SocketWire(asyncio.Transport):
    """A transport of a real socket whose own writes are kept apart."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"peername": ("10.0.0.1", 5), "sockname": ("10.0.0.2", 6), "socket": sock})
        self.written = bytearray()
        self.waiting_bytes = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Cover:
    """Takes the place of each transport, as fault rules and TLS do."""

    def __init__(self) -> None:
        self.wire: SocketWire | None = None

    def guard(self, code: int, handler: Any) -> Any:
        return handler

    def outlet(self, connection: Connection, transport: Any) -> Any:
        self.wire = SocketWire(transport.get_extra_info("socket"))
        return self.wire


class Stand:
    """A connection whose socket takes all of a body, or a part of it."""

    def __init__(self, takes_all: bool, cover: Cover | None = None) -> None:
        self.near, self.far = socket.socketpair()
        for sock in (self.near, self.far):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * len(BODY) if takes_all else len(BODY) // 64)
        self.wire = SocketWire(self.near)
        dispatcher = Dispatcher()
        dispatcher.intercept(cover)
        self.connection = Connection(dispatcher, CODEC, accepting=True)
        self.connection.connection_made(self.wire)
        self.reads: list[int] = []

    def send(self, body: bytes = BODY) -> None:
        def read(at: int) -> bytes:
            self.reads.append(at)
            return body[at:]

        call = Call(None, OPAQUE, False, CODEC, self.connection)
        with memoryview(body) as view:
            send_long(call, CopyAnswer(3, 4), view, read)

    def received(self) -> bytes:
        """Return what arrived through the socket."""
        found = bytearray()
        try:
            while True:
                found += self.far.recv(1 << 20)
        except BlockingIOError:
            return bytes(found)

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture
def stands() -> Iterator[list[Stand]]:
    made: list[Stand] = []
    yield made
    for stand in made:
        stand.close()


def assert_whole(frame: bytes) -> None:
    """Check that this is the response, and nothing else."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    head_end = 8 + int.from_bytes(frame[5:8], "big")
    envelope = CODEC.decode_envelope(frame[8:head_end])
    answer: Any = CODEC.decode_answer(answer_shape(CopyAnswer), envelope, frame[head_end:])
    assert (envelope.opaque, answer.log_position, answer.end_position) == (OPAQUE, 3, 4)
    assert answer.body == BODY


async def test_a_socket_that_takes_all_gets_it_without_a_copy(stands: list[Stand]) -> None:
    stands.append(stand := Stand(takes_all=True))
    body = BODY[: len(BODY) // 16]  # Every machine lets a socket keep as much.
    stand.send(body)
    assert stand.received().endswith(body)
    assert not stand.reads
    assert not stand.wire.written


async def test_what_the_socket_does_not_take_follows_in_order(stands: list[Stand]) -> None:
    stands.append(stand := Stand(takes_all=False))
    stand.send()
    at_once = stand.received()
    assert 0 < len(at_once) < len(BODY)
    assert len(stand.reads) == 1
    assert_whole(at_once + stand.wire.written)


async def test_nothing_overtakes_what_waits_already(stands: list[Stand]) -> None:
    stands.append(stand := Stand(takes_all=True))
    stand.wire.waiting_bytes = 1
    stand.send()
    assert not stand.received()
    assert_whole(bytes(stand.wire.written))


async def test_nothing_passes_by_what_covers_the_transport(stands: list[Stand]) -> None:
    cover = Cover()
    stands.append(stand := Stand(takes_all=True, cover=cover))
    stand.send()
    assert not stand.received()
    assert cover.wire is not None
    assert_whole(bytes(cover.wire.written))


async def test_a_frame_whose_rest_cannot_be_read_ends_the_connection(stands: list[Stand]) -> None:
    stands.append(stand := Stand(takes_all=False))

    def unreadable(_: int) -> bytes:
        raise OSError("the disk has a bad sector")

    with memoryview(BODY) as view, pytest.raises(OSError, match="bad sector"):
        send_long(Call(None, OPAQUE, False, CODEC, stand.connection), CopyAnswer(), view, unreadable)
    assert stand.wire.is_aborted


async def test_a_body_that_cannot_be_read_at_all_leaves_the_connection_open(stands: list[Stand]) -> None:
    stands.append(stand := Stand(takes_all=True))
    stand.wire.waiting_bytes = 1

    def unreadable(_: int) -> bytes:
        raise OSError("the disk has a bad sector")

    with memoryview(BODY) as view, pytest.raises(OSError, match="bad sector"):
        send_long(Call(None, OPAQUE, False, CODEC, stand.connection), CopyAnswer(), view, unreadable)
    assert not stand.wire.is_aborted
    assert not stand.wire.written
