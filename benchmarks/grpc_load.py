"""Load for a gRPC endpoint: calls of one kind, with a fixed number in flight per connection, counted when they end.

A real client library needs ten times as much CPU as the endpoint. So the frames are built once, like those of a client
whose header compression is warmed up: a repeated field is one byte, a field that changes with each call is text.
"""

import asyncio
import struct
import time
from typing import cast

from hpack import Encoder

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.calls import SERVICE
from staticfire.proxy.transport.header_block import pack_field

WINDOW_BYTES = 2**30
# The code 20000, as protobuf encodes it.
STATUS_OK = b"\xa0\x9c\x01"


def call_fields(method: str) -> list[tuple[str, str]]:
    """Return the header fields that RocketMQ's Java client sends with each call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"{SERVICE}/{method}"),
        (":authority", "127.0.0.1:8081"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "grpc-java-netty/1.53.0"),
        ("x-mq-language", "JAVA"),
        ("x-mq-protocol", "v2"),
        ("x-mq-client-version", "5.2.0"),
        ("x-mq-client-id", "host@1234@0@abcdefg"),
        ("x-mq-namespace", ""),
    ]


CHANGING_FIELDS = (
    pack_field("x-mq-request-id", b"3f2504e0-4f89-11d3-9a0c-0305e82c3301")
    + pack_field("x-mq-date-time", b"20261122T150000Z")
    + pack_field("grpc-timeout", b"2999m")
)


def send_request(topic: str, body: bytes) -> bytes:
    """Return the bytes of a SendMessage request."""
    system = pb.SystemProperties(message_id="0102FC000000013B460B14A60A00000000", message_type=pb.NORMAL, born_host="h")
    system.born_timestamp.FromMilliseconds(1_764_000_000_000)
    message = pb.Message(topic=pb.Resource(name=topic), system_properties=system, body=body)
    request = pb.SendMessageRequest(messages=[message]).SerializeToString()
    return struct.pack(">BI", 0, len(request)) + request


class CallLoad(asyncio.Protocol):
    """One connection that keeps a fixed number of calls in flight until it is stopped."""

    def __init__(self, method: str, request: bytes, in_flight: int) -> None:
        encoder = Encoder()
        self._first = encoder.encode(call_fields(method)) + CHANGING_FIELDS
        self._next = encoder.encode(call_fields(method)) + CHANGING_FIELDS
        self._request = request
        self._in_flight = in_flight
        self._stream_id = 1
        self._unread = b""
        self._received = 0
        self._open = 0
        self._ends = False
        self.ended = 0
        """The number of calls that have ended."""
        self.well = 0
        """The number of calls whose response had the status OK."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        settings = frames.settings_frame({frames.INITIAL_WINDOW_SIZE: WINDOW_BYTES})
        self._transport.write(frames.PREFACE + settings + frames.window_update(0, WINDOW_BYTES))
        self._fill()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(ConnectionError("the endpoint has closed a connection"))

    def stop(self) -> None:
        """Start no more calls. `over` is done when all have ended."""
        self._ends = True

    def _fill(self) -> None:
        out = []
        while self._open < self._in_flight and not self._ends:
            block, self._first = self._first, self._next
            out.append(frames.frame(frames.HEADERS, frames.END_HEADERS, self._stream_id, block))
            out.append(frames.frame(frames.DATA, frames.END_STREAM, self._stream_id, self._request))
            self._stream_id += 2
            self._open += 1
        if out:
            self._transport.write(b"".join(out))
        elif self._ends and not self._open and not self.over.done():
            self.over.set_result(None)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        position, end = 0, len(data)
        while end - position >= frames.HEAD_BYTES:
            size = int.from_bytes(data[position : position + 3], "big")
            start = position + frames.HEAD_BYTES
            if end - start < size:
                break
            self._frame(data[position + 3], data[position + 4], data[start : start + size])
            position = start + size
        self._unread = data[position:]
        if self._received * 2 > WINDOW_BYTES:
            self._transport.write(frames.window_update(0, self._received))
            self._received = 0
        self._fill()

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._received += len(payload)
            self.well += STATUS_OK in payload
        elif (kind == frames.HEADERS and flags & frames.END_STREAM) or kind == frames.RST_STREAM:
            self._open -= 1
            self.ended += 1
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._transport.write(frames.SETTINGS_ACK)
        elif kind == frames.PING and not flags & frames.ACK:
            self._transport.write(frames.frame(frames.PING, frames.ACK, 0, payload))


async def load_sends(
    port: int, topic: str, connections: int, in_flight: int, seconds: float, may_fail: bool = False
) -> tuple[int, float]:
    """Send for that long; return the number of OK responses, and the time. Raises: SystemExit (another response).

    `may_fail`: a cold JVM, or RocketMQ's broker on a machine that others use, responds to some calls too late.
    """
    loop = asyncio.get_running_loop()
    request = send_request(topic, b"x" * 256)
    loads = []
    begin_s = time.perf_counter()
    for _ in range(connections):
        _, load = await loop.create_connection(lambda: CallLoad("SendMessage", request, in_flight), "127.0.0.1", port)
        loads.append(load)
        loop.call_later(seconds, load.stop)
    await asyncio.gather(*(load.over for load in loads))
    took_s = time.perf_counter() - begin_s
    ended, well = sum(load.ended for load in loads), sum(load.well for load in loads)
    if not may_fail and ended - well > connections:  # If a response is split between two frames, its status isn't seen.
        raise SystemExit(f"bench: {ended - well} of {ended} calls were not answered with OK")
    return well if may_fail else ended, took_s
