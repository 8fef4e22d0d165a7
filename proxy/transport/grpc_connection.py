"""One client's connection: HTTP/2 below, gRPC calls above, and the limits of both.

It has no socket. `Entrance` gives it the received bytes as plain text, whether or not the client uses TLS, and takes
the bytes to send (`Way`).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport.call_events import CallData, CallOpened
from staticfire.proxy.transport.calls import CallKind, GrpcError, GrpcStatus, Methods
from staticfire.proxy.transport.first_bytes import HELLO
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.grpc_words import ANSWER_FIELDS, CONTENT_TYPE, end_fields, timeout_ms
from staticfire.proxy.transport.header_block import pack_field
from staticfire.proxy.transport.http2 import Http2
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.proxy.transport.outflow import H2Stream
from staticfire.proxy.transport.running_call import CallFacts, RunningCall
from staticfire.runtime.addresses import Address, format_address
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("grpc")


class Way(Protocol):
    """Where a connection's bytes go: the transport, with or without TLS."""

    @property
    def waiting_bytes(self) -> int:
        """How many written bytes couldn't be sent yet."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Close the connection after all written bytes have left."""

    def abort(self) -> None:
        """Close the connection now."""


class Shared(Protocol):
    """The endpoint, as seen by a connection: what all its connections share."""

    @property
    def methods(self) -> Methods: ...

    @property
    def limits(self) -> TransportLimits: ...

    @property
    def clock(self) -> Clock: ...

    open_calls: int
    """The number of open calls on all connections."""

    def hold(self, size: int) -> bool:
        """Change the size of all held requests by `size` bytes. Return whether it is within the limit."""

    def relieve(self, connection: "GrpcConnection") -> bool:
        """End the calls of the connection that holds the most, unless it is this one. Return whether there is room."""

    def note(self, event: str, peer: Address, reason: str) -> None:
        """Log why a connection is closed."""

    def queue(self, size: int) -> None:
        """Change the size of all responses that wait for their client by `size` bytes."""


class GrpcConnection:  # house: the calls of a connection and all that ends them, in one place
    """The calls of one client."""

    def __init__(self, shared: Shared, peer: Address, way: Way) -> None:
        self._shared = shared
        self._way = way
        self._clock = shared.clock
        self._http2 = Http2(shared.limits, self._clock.uptime_ms())
        self._calls: dict[H2Stream, RunningCall] = {}
        # The calls whose handlers are running, also calls that are over.
        self._tasks: dict[RunningCall, None] = {}
        self._is_leaving = False
        self._is_lost = False
        self._flush_planned = False
        self._has_heard_http = False
        # The size of the metadata of all open calls.
        self._metadata_bytes = 0
        self.held_bytes = 0
        """The size of the requests that are incomplete or that no handler has taken."""
        self.queued_bytes = 0
        """The size of the responses that couldn't be sent yet, in streams and in the transport."""
        self.peer = peer
        self.idle_since = self._clock.uptime_ms()
        """When its last call ended, or when the connection began."""
        # How many bytes waited in the transport at the last look.
        self._waiting_bytes = 0
        self.stuck_since: UptimeMs | None = None
        """Since when the client has taken nothing, or has left a frame incomplete; None if neither."""
        self._heard_ms = self.idle_since
        # When the PING was sent that the client hasn't answered.
        self._pinged_ms: UptimeMs | None = None
        self._http2.begin()

    @property
    def calls(self) -> int:
        """The number of calls, including those whose response waits for the client."""
        return max(len(self._tasks), len(self._http2.streams))

    @property
    def is_spare(self) -> bool:
        """Whether it may be closed when others need its place, although it has calls.

        It doesn't answer a PING, or has only streams that have no first request, or keep no place (GrpcCall.is_spare).
        """
        pinged_ms, ping_ms_max = self._pinged_ms, self._shared.limits.ping_ms_max
        if pinged_ms is not None and self._clock.uptime_ms() - pinged_ms >= ping_ms_max:
            return True
        return len(self._calls) == self.calls and all(
            each.kind is CallKind.BIDI and (each.call.is_spare or not each.has_begun) for each in self._calls.values()
        )

    # -- from the client -----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Process received bytes."""
        waited_for = self._http2.unread_bytes + len(data)
        self._heard_ms, self._pinged_ms = self._clock.uptime_ms(), None
        try:
            for event in self._http2.receive(data, self._heard_ms):
                if isinstance(event, CallOpened):
                    self._opened(event)
                elif isinstance(event, CallData):
                    self._received(event)
                elif (running := self._calls.pop(event.stream, None)) is not None:
                    running.drop()
                    self.idle_since = self._clock.uptime_ms()
        except Http2Fault as fault:
            self.reject(fault.code, str(fault))
            return
        outflow = self._http2.outflow
        if not outflow.is_paused:
            self._note_unfinished(waited_for)
        if outflow.is_paused and outflow.control_bytes > self._shared.limits.control_bytes_max:
            self.abort("the client reads no responses, but sends more and more frames that need an acknowledgement")
            return
        self.flush()

    def _note_unfinished(self, waited_for: int) -> None:
        """Note since when a frame, or a header block, is incomplete.

        `waited_for`: how many bytes were unread before they were parsed, with the new ones.
        """
        unread, is_in_block = self._http2.unread_bytes, self._http2.is_in_block
        if not unread and not is_in_block:
            self.stuck_since = None
        # A new incomplete frame restarts the time; a header block doesn't.
        elif self.stuck_since is None or (unread != waited_for and not is_in_block):
            self.stuck_since = self._clock.uptime_ms()

    def _opened(self, event: CallOpened) -> None:
        stream, limits = event.stream, self._shared.limits
        if (
            len(self._tasks) >= limits.streams_max
            or self._shared.open_calls >= limits.calls_max
            or self.queued_bytes > limits.unsent_bytes_max
            or self._metadata_bytes + event.size > limits.metadata_bytes_max
        ):
            self._http2.refuse(stream)
            return
        stream.first_fields = ANSWER_FIELDS
        try:
            running = self._new_call(event)
        except GrpcError as error:
            self.end(stream, end_fields(error.status, error.message))
            return
        if running is None:
            return
        self._calls[stream] = running
        running.open()
        if event.ended:
            self._received(CallData(stream, b"", True))

    def _new_call(self, event: CallOpened) -> RunningCall | None:
        """Return the call for a request; None if it isn't gRPC and was answered here. Raises: GrpcError."""
        fields = event.fields
        if not event.fits:
            words = (
                f"the metadata of a call is larger than {self._shared.limits.header_bytes_max} bytes, counted as "
                "HTTP/2 does"
            )
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, words)
        path = fields.get(":path")
        if path is None or ":method" not in fields:
            self._http2.reset(event.stream, H2Code.PROTOCOL_ERROR)
            return None
        if fields[":method"] != "POST" or not fields.get("content-type", "").startswith(CONTENT_TYPE):
            self._answer_http(event.stream, fields)
            return None
        wait_ms = timeout_ms(fields)
        method = self._shared.methods.get(path)
        if method is None:
            raise GrpcError(GrpcStatus.UNIMPLEMENTED, f"Method not found: {path.removeprefix('/')[:200]}")
        metadata = {name: value for name, value in fields.items() if name[:1] != ":"}
        facts = CallFacts(path, metadata, self.peer, self._clock, wait_ms, event.size)
        self._metadata_bytes += event.size
        self._shared.open_calls += 1
        return RunningCall(self, event.stream, method, facts, self._shared.limits)

    def _answer_http(self, stream: H2Stream, fields: dict[str, str]) -> None:
        """Respond to a request that isn't gRPC with an HTTP status."""
        status = b"415" if fields[":method"] == "POST" else b"405"
        if not self._has_heard_http:  # Logged once per connection.
            self._has_heard_http = True
            log.warning(
                "grpc_port_heard_http",
                peer=format_address(*self.peer),
                method=fields[":method"][:20],
                path=fields[":path"][:100],
            )
        stream.first_fields = pack_field(":status", status) + pack_field("content-type", b"text/plain")
        self.answer(stream, HELLO)
        self.end(stream, end_fields(GrpcStatus.UNIMPLEMENTED, "this is not a gRPC call"))

    def _received(self, event: CallData) -> None:
        running = self._calls.get(event.stream)
        if running is None:
            return
        try:
            running.receive(event.data, event.ended)
        except GrpcError as error:
            running.fail(error)

    # -- to the client: used by calls ----------------------------------------------------------------------------

    def answer(self, stream: H2Stream, message: bytes) -> None:
        self._http2.outflow.answer(stream, message)
        self._flush_soon()

    def end(self, stream: H2Stream, fields: bytes) -> None:
        self._calls.pop(stream, None)
        self._http2.outflow.end(stream, fields)
        self.idle_since = self._clock.uptime_ms()
        self._flush_soon()

    def took(self, stream: H2Stream, size: int) -> None:
        if self._http2.took(stream, size):
            self._flush_soon()

    def hold(self, size: int) -> bool:
        self.held_bytes += size
        return self._shared.hold(size) or (size > 0 and self._shared.relieve(self))

    def forget_metadata(self, size: int) -> None:
        self._metadata_bytes -= size
        self._shared.open_calls -= 1

    def task_started(self, running: RunningCall) -> None:
        self._tasks[running] = None

    def task_ended(self, running: RunningCall) -> None:
        self._tasks.pop(running, None)
        self.idle_since = self._clock.uptime_ms()

    def fail_held(self) -> None:
        """End the calls whose requests take the room that others need."""
        words = "the incomplete and waiting requests of all clients exceed their limit, and this client uses the most"
        self.fail_calls(GrpcStatus.RESOURCE_EXHAUSTED, words, lambda running: running.held_bytes > 0)

    def fail_unfinished(self, uptime_ms: UptimeMs) -> None:
        """End the calls whose request remains incomplete, so that their room can be used by others."""
        for running in [each for each in self._calls.values() if each.is_stuck(uptime_ms)]:
            running.fail(
                GrpcError(
                    GrpcStatus.DEADLINE_EXCEEDED, "the request is incomplete, and nothing was received for a long time"
                )
            )

    def fail_stalled(self, uptime_ms: UptimeMs) -> None:
        """Reset the streams that the client doesn't read. Close the connection if it reads none at all."""
        outflow, limits = self._http2.outflow, self._shared.limits
        if not outflow.unsent_bytes:
            return
        stalled = outflow.stalled(uptime_ms, limits.stuck_ms_max, limits.progress_bytes_min)
        if any(stream.progress is not None and stream.progress.frames == outflow.sent_frames for stream in stalled):
            words = f"for {limits.stuck_ms_max} ms its flow control windows have allowed no response"
            self.reject(H2Code.ENHANCE_YOUR_CALM, words)
            return
        for stream in stalled:
            running = self._calls.pop(stream, None)
            self._http2.reset(stream, H2Code.ENHANCE_YOUR_CALM)
            if running is not None:
                running.drop()
        self.flush()

    def fail_silent(self, uptime_ms: UptimeMs) -> None:
        """Send a PING to a client that has been silent for long; much later, abort the connection without an answer.

        A machine without network or power closes no connections. But a client that was only frozen needs its streams.
        """
        limits = self._shared.limits
        if self._pinged_ms is None:
            if uptime_ms - self._heard_ms >= limits.silent_ms_max:
                self._pinged_ms = uptime_ms
                self._http2.ping()
                self.flush()
        elif uptime_ms - self._pinged_ms >= limits.unanswered_ms_max:
            self.abort(f"nothing was received for {limits.unanswered_ms_max} ms, not even an answer to a PING")

    def note_progress(self, waiting_bytes: int) -> None:
        """Compare the bytes that wait in the transport with the last look: a slow client isn't stuck, nor silent."""
        if waiting_bytes < self._waiting_bytes:
            self._heard_ms, self._pinged_ms = self._clock.uptime_ms(), None
            if self._http2.outflow.is_paused:
                self.stuck_since = self._heard_ms
        self._waiting_bytes = waiting_bytes

    def _flush_soon(self) -> None:
        """Flush at the end of this turn of the event loop."""
        if not self._flush_planned:
            self._flush_planned = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write what may leave to the transport."""
        self._flush_planned = False
        if self._is_lost:
            return
        outflow = self._http2.outflow
        data = outflow.flush()
        if not data and not self.queued_bytes and not outflow.unsent_bytes:
            return
        while data:
            self._way.write(data)
            data = outflow.flush()
        queued = outflow.unsent_bytes + self._way.waiting_bytes
        if queued != self.queued_bytes:
            self._note_queued(queued)

    def _note_queued(self, queued: int) -> None:
        change, self.queued_bytes = queued - self.queued_bytes, queued
        self._shared.queue(change)

    def paused(self) -> None:
        """Note that the transport takes nothing for now."""
        self._http2.outflow.is_paused = True
        self.stuck_since = self._clock.uptime_ms()

    def resumed(self) -> None:
        """Note that the transport takes bytes again."""
        self._http2.outflow.is_paused = False
        self.stuck_since = None
        self.flush()

    # -- the end -------------------------------------------------------------------------------------------------

    def leave(self, code: H2Code = H2Code.NO_ERROR, words: str = "") -> None:
        """Send GOAWAY: no more calls are accepted."""
        if not self._is_leaving:
            self._is_leaving = True
            self._http2.leave(code, words)
            self.flush()

    def reject(self, code: H2Code, words: str) -> None:
        """Close the connection, because its client broke a rule."""
        self._shared.note("grpc_connection_rejected", self.peer, f"{words} ({code.name})")
        self.leave(code, words)
        self.lost()
        if self._way.waiting_bytes > self._shared.limits.control_bytes_max:
            # The client doesn't read, so it won't read the reason either, and the waiting bytes would never leave.
            self._way.abort()
        else:
            self._way.close()

    def abort(self, words: str) -> None:
        """Abort the connection, because its client broke a rule."""
        self._shared.note("grpc_connection_rejected", self.peer, words)
        self.lost()
        self._way.abort()

    def fail_calls(self, status: GrpcStatus, words: str, fail_if: Callable[[RunningCall], bool]) -> None:
        """End the calls that `fail_if` selects, with an error."""
        for running in [each for each in self._calls.values() if fail_if(each)]:
            running.fail(GrpcError(status, words))

    def lost(self) -> None:
        """End all calls: nothing arrives or leaves any more."""
        calls, self._calls = self._calls, {}
        for running in calls.values():
            running.drop()
        for stream in list(self._http2.streams.values()):
            self._http2.outflow.drop(stream)
        self._http2.streams.clear()
        self._is_lost = True
        self._note_queued(0)

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the tasks of the running handlers."""
        return [running.task for running in self._tasks if running.task is not None]
