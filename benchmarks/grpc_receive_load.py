"""Receives of a simple consumer over gRPC: its settings over Telemetry, then one receive after another per connection.

Received messages are never acknowledged, so each message counts once.
"""

import asyncio
import struct
import time

from hpack import Encoder

from benchmarks.grpc_load import CHANGING_FIELDS, CallLoad, call_fields
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.header_block import pack_field

MESSAGES = 32
RECEIVE_S_MAX = 40
POLL_S, INVISIBLE_S = 5, 3600
_TIMEOUT = pack_field("grpc-timeout", b"20S")
_ANOTHERS = pack_field("grpc-timeout", b"2999m")


def framed(message: bytes) -> bytes:
    """Return a message with gRPC's frame header."""
    return struct.pack(">BI", 0, len(message)) + message


def settings_request(topic: str, group: str) -> bytes:
    """Return the first message of a simple consumer on its Telemetry stream."""
    command = pb.TelemetryCommand()
    command.settings.client_type = pb.SIMPLE_CONSUMER
    command.settings.request_timeout.FromSeconds(3)
    command.settings.subscription.group.name = group
    entry = command.settings.subscription.subscriptions.add()
    entry.topic.name = topic
    entry.expression.type, entry.expression.expression = pb.TAG, "*"
    return framed(command.SerializeToString())


def receive_request(topic: str, group: str) -> bytes:
    """Return the bytes of a ReceiveMessage request."""
    request = pb.ReceiveMessageRequest(batch_size=MESSAGES)
    request.group.name, request.message_queue.topic.name = group, topic
    request.filter_expression.type, request.filter_expression.expression = pb.TAG, "*"
    request.invisible_duration.FromSeconds(INVISIBLE_S)
    request.long_polling_timeout.FromSeconds(POLL_S)
    return framed(request.SerializeToString())


class Tally:
    """What all connections have received. `over` is done when that is enough."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._begin_s = 0.0
        self._first = 0
        self.messages = 0
        self.took_s = 0.0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, messages: int) -> None:
        """Count messages. The time starts with the first of them."""
        if self.over.done() or not messages:
            return
        if not self.messages and not self._first:
            self._begin_s, self._first = time.perf_counter(), messages
            return
        self.messages += messages
        if self._first + self.messages >= self._wanted:
            self.took_s = time.perf_counter() - self._begin_s
            self.over.set_result(None)


class ReceiveLoad(CallLoad):
    """One connection: a Telemetry stream, and after its response one receive at a time."""

    def __init__(self, topic: str, group: str, mark: bytes, tally: Tally) -> None:
        """`mark`: bytes that each message contains once."""
        super().__init__("ReceiveMessage", receive_request(topic, group), 1)
        encoder, more = Encoder(), CHANGING_FIELDS.replace(_ANOTHERS, b"")
        self._telemetry = encoder.encode(call_fields("Telemetry")) + more
        self._first = encoder.encode(call_fields("ReceiveMessage")) + more + _TIMEOUT
        self._next = encoder.encode(call_fields("ReceiveMessage")) + more + _TIMEOUT
        self._settings = settings_request(topic, group)
        self._is_known = False
        self._mark = mark
        self._tally = tally

    def _fill(self) -> None:
        if self._is_known:
            super()._fill()
        elif self._telemetry:
            begin = frames.frame(frames.HEADERS, frames.END_HEADERS, self._stream_id, self._telemetry)
            self._transport.write(begin + frames.frame(frames.DATA, 0, self._stream_id, self._settings))
            self._telemetry = b""
            self._stream_id += 2

    def close(self) -> None:
        """Close the connection."""
        self.over.cancel()
        self._transport.close()

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        super()._frame(kind, flags, payload)
        if kind == frames.DATA:
            self._is_known = True
            self._tally.add(payload.count(self._mark))


async def load_receives(
    port: int, where: tuple[str, str], connections: int, mark: bytes, wanted: int
) -> tuple[int, float]:
    """Receive that many messages of (topic, group); return the number that was counted, and the time.

    Raises: SystemExit (they didn't arrive).
    """
    loop = asyncio.get_running_loop()
    loads, tally = [], Tally(wanted)
    for _ in range(connections):
        _, load = await loop.create_connection(lambda: ReceiveLoad(*where, mark, tally), "127.0.0.1", port)
        loads.append(load)
    try:
        async with asyncio.timeout(RECEIVE_S_MAX):
            await tally.over
    except TimeoutError:
        raise SystemExit(f"bench: {tally.messages} of {wanted} messages were received by gRPC") from None
    finally:
        for load in loads:
            load.close()
    return tally.messages, tally.took_s
