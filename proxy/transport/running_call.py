"""One running call: its requests on their way to the handler, the handler's task, and its responses.

Requests: a unary call, or one whose responses are a stream, starts its handler when the client has sent its one request
and ended its side. A bidi call starts its handler at once and queues the requests for it. Received bytes are reported
to the client as consumed unless too many of them wait for a bidi handler, so a slow handler slows down its client.
Responses: `send` waits while too much of the stream is unsent.

A call ends exactly once: with its response, an error, its deadline, a reset by the client, or its connection. The first
of these sets `is_over`. The handler's task is then cancelled, unless the task itself ended the call, and nothing more
is sent.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import DecodeError, Message

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.calls import (
    CallKind,
    GrpcAnswer,
    GrpcCall,
    GrpcError,
    GrpcStatus,
    Method,
    StreamSide,
    as_it_travels,
)
from staticfire.proxy.transport.grpc_words import WELL_ENDED, RequestReader, end_fields
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.proxy.transport.outflow import H2Stream
from staticfire.runtime.addresses import Address, format_address
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("grpc")

# The overhead that is counted for each request that waits for its handler: empty requests need memory, too.
REQUEST_BYTES = 64
# Longer deadlines are ignored: RocketMQ's clients set up to 60 years for their telemetry.
TIMER_MS_MAX = 24 * 3_600_000


class CallOwner(Protocol):
    """The connection, as seen by a call."""

    def answer(self, stream: H2Stream, message: bytes) -> None: ...

    def end(self, stream: H2Stream, fields: bytes) -> None: ...

    def took(self, stream: H2Stream, size: int) -> None:
        """Report that `size` bytes of the call's requests are consumed."""

    def hold(self, size: int) -> bool:
        """Change the size of the requests that wait for their handler by `size` bytes. Return whether there is room."""

    def forget_metadata(self, size: int) -> None:
        """Subtract the metadata of a call that is over; `size` is what was counted for it."""

    def task_started(self, running: "RunningCall") -> None: ...

    def task_ended(self, running: "RunningCall") -> None: ...


class CallFacts(NamedTuple):
    """The data of a new call. `timeout_ms`: how long its client waits, None without a deadline; `metadata_bytes`: the
    counted size of its fields."""

    method: str
    metadata: Mapping[str, str]
    peer: Address
    clock: Clock
    timeout_ms: int | None
    metadata_bytes: int


class RunningCall:
    """The state of one call of a connection."""

    def __init__(
        self, owner: CallOwner, stream: H2Stream, method: Method, facts: CallFacts, limits: TransportLimits
    ) -> None:
        self._owner = owner
        self._method = method
        self.kind = method.kind
        self._timeout_ms = facts.timeout_ms
        self._metadata_bytes = facts.metadata_bytes
        self.call = GrpcCall(
            facts.method,
            facts.metadata,
            facts.peer,
            facts.clock,
            None if facts.timeout_ms is None else UptimeMs(facts.clock.uptime_ms() + facts.timeout_ms),
            None if method.kind is CallKind.UNARY else StreamSide(self.send, self.drained),
        )
        self._limits = limits
        self._reader = RequestReader(limits.request_bytes_max)
        self._requests: deque[bytes] = deque()
        # The size of these requests.
        self._waiting_bytes = 0
        self.held_bytes = 0
        """The size of the requests that are incomplete or that the handler hasn't taken, as it was last counted."""
        # Received bytes that weren't yet reported to the client as consumed.
        self._untold_bytes = 0
        self._has_all = False
        self.has_begun = False
        """Whether a complete request has arrived."""
        # When the last part of an incomplete request arrived.
        self._heard_ms = UptimeMs(0)
        # When a request was first seen to be incomplete or missing.
        self._begun_ms: UptimeMs | None = None
        self._clock = facts.clock
        self._waiter: asyncio.Future[None] | None = None
        self.stream = stream
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._taken: asyncio.Future[None] | None = None

    # -- requests ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, ended: bool) -> None:
        """Process received bytes. Start the handler when it has what it needs. Raises: GrpcError."""
        messages = self._reader.feed(data)
        if messages:
            self._requests.extend(messages)
            self._waiting_bytes += sum(map(len, messages)) + REQUEST_BYTES * len(messages)
            self._begun_ms = None
            self.has_begun = True
        self._untold_bytes += len(data)
        self._has_all = ended
        if self._reader.held_bytes:
            self._heard_ms = self._clock.uptime_ms()
        if self.kind is CallKind.BIDI:
            if ended and self._reader.held_bytes:
                raise GrpcError(GrpcStatus.INTERNAL, "the client closed the stream in the middle of a message")
            if messages or ended:
                self._wake()
        elif ended or len(self._requests) > 1:
            self._start_with_one()
        self._count_waiting()

    def _start_with_one(self) -> None:
        if len(self._requests) != 1 or self._reader.held_bytes:
            words = f"received {len(self._requests)} requests: {self.call.method} needs exactly one"
            raise GrpcError(GrpcStatus.INTERNAL, words)
        request = self._next_request()
        if self.kind is CallKind.UNARY:
            self._start(self._answer_once(request))
        else:
            self._start(self._answer_stream(self._method.handler(request, self.call)))

    def open(self) -> None:
        """Start the deadline, and the handler if it takes its requests as they arrive."""
        if self._timeout_ms is not None and self._timeout_ms < TIMER_MS_MAX:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_ms / 1000, self._expire)
        if self.kind is CallKind.BIDI:
            self._start(self._answer_stream(self._method.handler(self._iterate(), self.call)))

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.task = asyncio.get_running_loop().create_task(coroutine)
        self.task.add_done_callback(self._task_done)
        self._owner.task_started(self)

    async def _iterate(self) -> AsyncIterator[Message]:
        while not self.is_over:
            if self._requests:
                request = self._next_request()
                self._count_waiting()
                yield request
                continue
            if self._has_all:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _next_request(self) -> Message:
        data = self._requests.popleft()
        self._waiting_bytes -= len(data) + REQUEST_BYTES
        try:
            return self._method.request_type.FromString(data)
        except DecodeError:
            words = f"{len(data)} bytes that are not a {self._method.request_type.DESCRIPTOR.name}"
            raise GrpcError(GrpcStatus.INTERNAL, words) from None

    def _count_waiting(self) -> None:
        """Count what is incomplete or waits. Let the client send more, unless too much waits for the handler.

        Raises: GrpcError.
        """
        size = self._reader.held_bytes + self._waiting_bytes - self.held_bytes
        self.held_bytes += size
        if size and not self._owner.hold(size) and size > 0:
            words = "the incomplete and waiting requests of all clients exceed their limit"
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, words)
        if self._untold_bytes and (
            self.kind is not CallKind.BIDI or self._waiting_bytes <= self._limits.unread_requests_bytes_max
        ):
            size, self._untold_bytes = self._untold_bytes, 0
            self._owner.took(self.stream, size)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def is_stuck(self, uptime_ms: UptimeMs) -> bool:
        """Return whether a request has been incomplete for too long. Call it periodically."""
        held = self._reader.held_bytes
        if not held and (self._has_all or (self.kind is CallKind.BIDI and self.has_begun)):
            return False  # Between two requests of a stream, any silence is allowed.
        if held and uptime_ms - self._heard_ms >= self._limits.stuck_ms_max:
            return True
        if self._begun_ms is None:
            self._begun_ms = uptime_ms
        return uptime_ms - self._begun_ms >= self._limits.unfinished_ms_max

    # -- responses -----------------------------------------------------------------------------------------------

    async def _answer_once(self, request: Message) -> None:
        try:
            answer = await self._method.handler(request, self.call)
        except GrpcError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - one call: the others and the connection continue
            self._crashed(error)
        else:
            if not self.is_over:
                self._owner.answer(self.stream, as_it_travels(answer))
                self._end(WELL_ENDED)

    async def _answer_stream(self, answers: AsyncGenerator[GrpcAnswer, None]) -> None:
        try:
            try:
                async for answer in answers:
                    await self.send(answer)
            finally:
                await answers.aclose()
        except GrpcError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - one call: the others and the connection continue
            self._crashed(error)
        else:
            if not self.is_over:
                self._end(WELL_ENDED)

    async def send(self, answer: GrpcAnswer) -> None:
        """Send one response of a stream. If too much is unsent, wait until all has left. Raises: GrpcError."""
        self._check_open()
        self._owner.answer(self.stream, as_it_travels(answer))
        while self.stream.pending_bytes > self._limits.stream_unsent_bytes_max:
            await self._until_taken()

    async def drained(self) -> None:
        """Wait until no response of the stream is queued. Raises: GrpcError if the call is over before."""
        while self.stream.pending:
            await self._until_taken()
        self._check_open()

    def _check_open(self) -> None:
        """Raises: GrpcError if the call is over."""
        if self.is_over:
            raise GrpcError(GrpcStatus.CANCELLED, f"{self.call.method}: the call has ended")

    async def _until_taken(self) -> None:
        """Wait until all queued responses have left, or are dropped."""
        if self._taken is None:
            self._taken = asyncio.get_running_loop().create_future()
            self.stream.when_taken = self._resolve_taken
        await asyncio.shield(self._taken)  # Several tasks may wait here, and one of them may be cancelled.

    def _resolve_taken(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None and not taken.done():
            taken.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------

    def fail(self, error: GrpcError) -> None:
        """End the call with an error, unless it is over."""
        if not self.is_over:
            self._end(end_fields(error.status, error.message))

    def drop(self) -> None:
        """End the call without a response: the client has cancelled it or is gone."""
        if not self.is_over:
            self._over()

    def _crashed(self, error: Exception) -> None:
        log.error(
            "grpc_call_failed",
            method=self.call.method,
            peer=format_address(*self.call.peer),
            error=repr(error),
            exc_info=error,
        )
        self.fail(GrpcError(GrpcStatus.INTERNAL, f"{self.call.method} failed: {error!r}"))

    def _end(self, fields: bytes) -> None:
        self._over()
        self._owner.end(self.stream, fields)

    def _over(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._requests.clear()
        if self.held_bytes:
            self._owner.hold(-self.held_bytes)
            self.held_bytes = 0
        self._owner.forget_metadata(self._metadata_bytes)
        if self.task is not None and self.task is not asyncio.current_task(self.task.get_loop()):
            self.task.cancel()
        self._resolve_taken()

    def _expire(self) -> None:
        self.fail(GrpcError(GrpcStatus.DEADLINE_EXCEEDED, f"{self.call.method}: the client's deadline has passed"))

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._owner.task_ended(self)
        if not task.cancelled() and task.exception() is not None:
            log.error("grpc_call_failed", method=self.call.method, error=repr(task.exception()))
        if not self.is_over:
            self._over()
