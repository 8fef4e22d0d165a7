"""The interface between services and the transport: methods, the call that a handler receives, errors.

    async def query_route(request: pb.QueryRouteRequest, call: GrpcCall) -> pb.QueryRouteResponse: ...
    async def receive(request: pb.ReceiveMessageRequest, call: GrpcCall) -> AsyncIterator[...]: ...
    async def telemetry(commands: AsyncIterator[pb.TelemetryCommand], call: GrpcCall) -> AsyncIterator[...]: ...

    METHODS = {
        f"{SERVICE}/QueryRoute": unary(pb.QueryRouteRequest, query_route),
        f"{SERVICE}/ReceiveMessage": server_stream(pb.ReceiveMessageRequest, receive),
        f"{SERVICE}/Telemetry": bidi(pb.TelemetryCommand, telemetry),
    }

How a call ends: when its handler returns, with OK; when it raises `GrpcError`, with that status; after any other
exception, with INTERNAL and a log line, as in RocketMQ's proxy. When the client disconnects, resets the stream, or its
deadline expires, the handler's task is cancelled: it gets CancelledError where it waits. An async generator that is
suspended at a `yield` is closed instead (it gets GeneratorExit there): what it yielded last may not have reached the
client. The iteration over the requests of a bidi call stops when the client has closed its side.

Responses leave in the order in which they are yielded. A `yield` waits while the client doesn't read. In a bidi call,
`GrpcCall.send` does the same from any task, so that commands can be sent while the handler waits for requests. A
handler with many small responses yields several of them at once, as `PackedAnswers`. What was yielded may be queued
here until the client reads it; `GrpcCall.drained` waits until nothing is queued any more.
"""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, NamedTuple, NewType, TypeAlias, TypeVar

from google.protobuf.message import Message

from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.addresses import Address
from staticfire.runtime.machine import Clock

SERVICE = "/apache.rocketmq.v2.MessagingService"

R = TypeVar("R", bound=Message)

PackedAnswers = NewType("PackedAnswers", bytes)
"""One or several responses as they are sent: each has `answer_head` in front."""

GrpcAnswer: TypeAlias = Message | PackedAnswers
"""What streaming handlers yield."""

MESSAGE_HEAD = struct.Struct(">BI")
"""The prefix of each message: whether it is compressed, and its length."""


def answer_head(size: int) -> bytes:
    """Return the prefix of an uncompressed response of `size` bytes."""
    return MESSAGE_HEAD.pack(0, size)


def as_it_travels(answer: GrpcAnswer) -> PackedAnswers:
    """Return a response as it is sent, with its length in front."""
    if isinstance(answer, bytes):
        return answer
    message = answer.SerializeToString()
    return PackedAnswers(answer_head(len(message)) + message)


class GrpcStatus(IntEnum):
    """The status of a call (gRPC's codes). The result of a request is usually in the status of the response instead."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(StaticfireError):
    """Ends a call with a gRPC status."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class StreamSide(NamedTuple):
    """What a call whose responses are a stream does with them."""

    send: Callable[[Message], Awaitable[None]]
    drained: Callable[[], Awaitable[None]]


class GrpcCall:
    """One call, as seen by its handler."""

    __slots__ = ("_clock", "_stream", "deadline_ms", "is_spare", "metadata", "method", "peer")

    def __init__(
        self,
        method: str,
        metadata: Mapping[str, str],
        peer: Address,
        clock: Clock,
        deadline_ms: UptimeMs | None = None,
        stream: StreamSide | None = None,
    ) -> None:
        """`stream`: None for a call with a single response."""
        self.method = method
        """The full path of the method."""
        self.metadata = metadata
        """Names are in lower case, without HTTP's own fields (`:path`). If a name occurs twice, its last value
        counts."""
        self.peer = peer
        """Host and port of the client."""
        self.is_spare = False
        """Whether it is a stream that keeps no place: its connection may be closed when another client needs one."""
        self.deadline_ms = deadline_ms
        self._clock = clock
        self._stream = stream

    def remaining_ms(self) -> int | None:
        """Return how long the client still waits, at least 0; None without a deadline."""
        if self.deadline_ms is None:
            return None
        return max(0, self.deadline_ms - self._clock.uptime_ms())

    async def send(self, response: Message) -> None:
        """Send a response of a stream, from any task; return when it needs no more room here.

        Raises: GrpcError (CANCELLED: the call is over, or it isn't a stream).
        """
        if self._stream is None:
            raise GrpcError(GrpcStatus.CANCELLED, "this call has a single response")
        await self._stream.send(response)

    async def drained(self) -> None:
        """Wait until none of the stream's responses is queued here. A call without a queue is always drained.

        Raises: GrpcError (CANCELLED: the call has ended before).
        """
        if self._stream is not None:
            await self._stream.drained()


class CallKind(Enum):
    """Which side streams."""

    UNARY = "unary"
    SERVER_STREAM = "server stream"
    BIDI = "bidi"


class Method(NamedTuple):
    """A method of a service; made by `unary`, `server_stream` or `bidi`."""

    kind: CallKind
    request_type: type[Message]
    handler: Callable[[Any, GrpcCall], Any]


Methods = Mapping[str, Method]
"""Methods by their full path: `/apache.rocketmq.v2.MessagingService/QueryRoute`."""


StreamHandler: TypeAlias = Callable[[Any, GrpcCall], AsyncIterator[Any]]
"""A handler whose responses are a stream."""


def unary(request_type: type[R], handler: Callable[[R, GrpcCall], Awaitable[Message]]) -> Method:
    """Return a method with one request and one response."""
    return Method(CallKind.UNARY, request_type, handler)


def server_stream(request_type: type[R], handler: Callable[[R, GrpcCall], AsyncIterator[GrpcAnswer]]) -> Method:
    """Return a method with one request and any number of responses; the handler is an async generator."""
    return Method(CallKind.SERVER_STREAM, request_type, handler)


def bidi(request_type: type[R], handler: Callable[[AsyncIterator[R], GrpcCall], AsyncIterator[Message]]) -> Method:
    """Return a method in which both sides stream; the handler is an async generator."""
    return Method(CallKind.BIDI, request_type, handler)
