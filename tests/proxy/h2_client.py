"""A gRPC client on h2, which is not ours, over whichever network a machine has; and a service for it to call."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.settings import SettingCodes, Settings

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.transport.calls import (
    SERVICE,
    GrpcAnswer,
    GrpcCall,
    GrpcError,
    GrpcStatus,
    Methods,
    PackedAnswers,
    as_it_travels,
    bidi,
    server_stream,
    unary,
)
from staticfire.runtime.machine import Machine

OPEN = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "endpoint"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def framed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


@dataclass
class Answer:
    """What came of a call."""

    fields: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    reset: int | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> GrpcStatus | None:
        return GrpcStatus(int(self.fields["grpc-status"])) if "grpc-status" in self.fields else None

    @property
    def words(self) -> str:
        return unquote(self.fields.get("grpc-message", ""))

    @property
    def messages(self) -> list[bytes]:
        found, position = [], 0
        while position + 5 <= len(self.data):
            size = int.from_bytes(self.data[position + 1 : position + 5], "big")
            if position + 5 + size > len(self.data):
                break
            found.append(bytes(self.data[position + 5 : position + 5 + size]))
            position += 5 + size
        return found


class H2Client(asyncio.Protocol):
    """One connection. `takes`: whether it tells the server that it has taken DATA."""

    def __init__(self, window: int | None = None) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        if window is not None:
            self.h2.local_settings = Settings(initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.takes = True
        self.answers: dict[int, Answer] = {}
        self.goodbye: tuple[int, bytes] | None = None
        self.closed = asyncio.Event()
        self.changed = asyncio.Event()
        self.acknowledged = 0
        self._unread = b""

    @classmethod
    async def connect(cls, machine: Machine, port: int, host: str = "127.0.0.1", **more: Any) -> "H2Client":
        client = cls(**more)
        await machine.network.connect(lambda: client, host, port, 5_000)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        for answer in self.answers.values():
            answer.over.set()
        self.closed.set()
        self.changed.set()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while len(self._unread) >= 9 and len(self._unread) >= (size := 9 + int.from_bytes(self._unread[:3], "big")):
            frame, self._unread = self._unread[:size], self._unread[size:]
            self._frame(frame)
        self.flush()

    def _frame(self, frame: bytes) -> None:
        for event in self.h2.receive_data(frame):
            if isinstance(event, ConnectionTerminated):
                self.goodbye = (int(event.error_code or 0), event.additional_data or b"")
                # To h2 this is the end, although open streams may go on (RFC 9113, 6.8).
                self.h2.state_machine.state = ConnectionState.CLIENT_OPEN
            elif isinstance(event, SettingsAcknowledged):
                self.acknowledged += 1
            elif isinstance(event, WindowUpdated):
                self.changed.set()
            elif getattr(event, "stream_id", None) in self.answers:
                self._heard(self.answers[event.stream_id], event)  # type: ignore[attr-defined]

    def _heard(self, answer: Answer, event: Any) -> None:
        if isinstance(event, ResponseReceived | TrailersReceived):
            answer.fields.update({str(name): str(value) for name, value in event.headers})
        elif isinstance(event, DataReceived):
            answer.data += event.data
            if self.takes and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamReset):
            if not answer.over.is_set():
                answer.reset = int(event.error_code)
            answer.over.set()
            self.changed.set()
        elif isinstance(event, StreamEnded):
            answer.over.set()
            self.changed.set()

    # -- calls -----------------------------------------------------------------------------------------------------

    def open(self, name: str, *metadata: tuple[str, str], ended: bool = False) -> int:
        stream = self.h2.get_next_available_stream_id()
        self.answers[stream] = Answer()
        path = name if name.startswith("/") else f"{SERVICE}/{name}"
        self.h2.send_headers(stream, [(":path", path), *OPEN, *metadata], ended)
        self.flush()
        return stream

    async def send(self, stream: int, data: bytes, end: bool = False) -> None:
        """Send bytes as the windows allow it; returns early when the connection is gone."""
        while data and not self.closed.is_set() and not self.answers[stream].over.is_set():
            self.changed.clear()
            size = min(len(data), self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if size == 0:
                await self.changed.wait()
                continue
            self.h2.send_data(stream, data[:size])
            data = data[size:]
            self.flush()
        if end and not self.closed.is_set() and not self.answers[stream].over.is_set():
            self.h2.end_stream(stream)
            self.flush()

    async def result(self, stream: int) -> Answer:
        await self.answers[stream].over.wait()
        return self.answers[stream]

    async def call(self, name: str, message: bytes, *metadata: tuple[str, str]) -> Answer:
        stream = self.open(name, *metadata)
        await self.send(stream, framed(message), end=True)
        return await self.result(stream)


def a_send(body: bytes = b"x", message_id: str = "id") -> bytes:
    message = pb.Message(body=body, system_properties=pb.SystemProperties(message_id=message_id))
    return pb.SendMessageRequest(messages=[message]).SerializeToString()


class EchoService:
    """A send tells how long the body was; a receive gives `batch_size` messages; telemetry says what it hears.

    A receive with `auto_renew` gives all messages at once. A telemetry stream keeps no place after "unknown".
    `SendMessage` of the id "wait" ends when `go` is set, "fail" fails, "refuse" is refused.
    """

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.calls: list[GrpcCall] = []
        self.ended: list[str] = []
        self.yielded = 0

    @property
    def methods(self) -> Methods:
        return {
            f"{SERVICE}/SendMessage": unary(pb.SendMessageRequest, self.send),
            f"{SERVICE}/ReceiveMessage": server_stream(pb.ReceiveMessageRequest, self.receive),
            f"{SERVICE}/Telemetry": bidi(pb.TelemetryCommand, self.telemetry),
        }

    async def send(self, request: pb.SendMessageRequest, call: GrpcCall) -> pb.SendMessageResponse:
        self.calls.append(call)
        try:
            message_id = request.messages[0].system_properties.message_id
            if message_id == "wait":
                await self.go.wait()
            elif message_id == "fail":
                raise ZeroDivisionError("nobody thought of it")
            elif message_id == "refuse":
                raise GrpcError(GrpcStatus.FAILED_PRECONDITION, "100 % of it – no")
            sizes = [pb.SendResultEntry(offset=len(each.body)) for each in request.messages]
            return pb.SendMessageResponse(entries=sizes)
        except asyncio.CancelledError:
            self.ended.append("send")
            raise

    async def receive(self, request: pb.ReceiveMessageRequest, call: GrpcCall) -> AsyncIterator[GrpcAnswer]:
        body = b"x" * (len(request.attempt_id) or 1)
        try:
            if request.auto_renew:
                answer = as_it_travels(pb.ReceiveMessageResponse(message=pb.Message(body=body)))
                yield PackedAnswers(answer * request.batch_size)
                return
            for _ in range(request.batch_size):
                self.yielded += 1
                yield pb.ReceiveMessageResponse(message=pb.Message(body=body))
        finally:
            self.ended.append("receive")

    async def telemetry(
        self, commands: AsyncIterator[pb.TelemetryCommand], call: GrpcCall
    ) -> AsyncIterator[pb.TelemetryCommand]:
        try:
            async for command in commands:
                if command.verify_message_result.nonce == "slow":
                    await self.go.wait()
                call.is_spare = command.verify_message_result.nonce == "unknown"
                await call.send(command)
                yield command
        finally:
            self.ended.append("telemetry")


def command(nonce: str) -> bytes:
    return pb.TelemetryCommand(verify_message_result=pb.VerifyMessageResult(nonce=nonce)).SerializeToString()


def nonces(messages: Sequence[bytes]) -> list[str]:
    return [pb.TelemetryCommand.FromString(each).verify_message_result.nonce for each in messages]
