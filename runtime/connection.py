"""One TCP connection: it handles received requests and sends responses. protocol/frame_reader.py reads the frames.

A connection is symmetric: both sides may send requests. The data of one read of the socket is a *burst*:

    1. each complete frame becomes a call, and its handler runs at once, without a task or a future;
    2. `Dispatcher.settle` runs: the broker writes all records of the burst with one file write and answers their sends;
    3. all responses are sent with one `transport.write`.

If only one connection is busy, a long read is split into several bursts. So its peer can work on the first responses
while the rest is handled.

Back-pressure: if a peer doesn't read its responses, an accepting side stops handling requests, in the middle of a
burst, and stops reading. It continues at the same place when the peer has read them (`_go_on`). A side that opened the
connection waits in `writable()`. It never stops reading, because otherwise both sides could wait for each other with
full buffers.
"""
# house: reads, handlers, responses and requests share one state: the pauses of both sides, the burst, the buffer

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, cast

from staticfire.protocol.codecs import Codec
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request, declaration_of, refusal
from staticfire.protocol.errors import AnswerTimeout, ConnectionLost, ProtocolError
from staticfire.protocol.frame_reader import AnswerFrame, FrameReader, Peer
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from staticfire.protocol.requests.access import SignIn
from staticfire.runtime.addresses import format_address, plain_host
from staticfire.runtime.dispatcher import Call, Dispatcher, Handler, failure
from staticfire.runtime.log import logger
from staticfire.runtime.pending_answers import PendingAnswer, PendingAnswers, Reply

log = logger("connection")

# The limit of responses that the peer hasn't read. Above it, no more of its requests are handled or read.
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
# The limit of collected responses of a burst. Then they are written to the transport, which notices whether the peer
# reads them.
OUT_BYTES_MAX = 1024 * 1024

# The bytes of requests in one burst, if only one connection is busy. Otherwise, with 64 sends of 1 KiB in flight on one
# connection, peer and broker would take turns, and each would wait while the other works: 16 us per send instead of 14.
# With eight busy connections, neither side waits, and more bursts would take a tenth longer.
BURST_BYTES = 48 * 1024
# If the collected responses reach this size, they are sent in the middle of a burst. The peer can then work on them,
# and joining a long response with others costs more than a separate write (35 KiB: 7 us compared to 5 us).
LONG_BYTES = 32 * 1024
# The same limit as a number of responses: two pulls of 32 messages are sent while the next ones are looked up.
PIECES_MAX = 64
_NO_LIMIT = 1 << 62
# How long a connection that is being closed may take to send its last bytes. A peer that reads none of them would keep
# it, and its memory, for ever.
CLOSING_MS_MAX = 10_000

_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Owner(Protocol):
    """The object that created a connection. It is notified when the connection begins and ends."""

    def connected(self, connection: "Connection") -> None: ...

    def disconnected(self, connection: "Connection") -> None: ...

    def left_unfinished(self, connection: "Connection", unread_bytes: int, is_new: bool) -> None:
        """A read ended in the middle of a frame, a new one or the same as before. 0 bytes: the frame is complete."""

    def rejected(self, connection: "Connection", reason: str) -> None:
        """Log why a connection is closed."""

    def takes_over(self, connection: "Connection", error: ProtocolError) -> bool:
        """Return whether it handles bytes that aren't a frame: the beginning of TLS. Otherwise they are rejected."""


class Connection(asyncio.Protocol):  # house: one state, as the file says
    """One connection. A `Server` or a client's pool creates it; other objects hold a reference."""

    def __init__(self, dispatcher: Dispatcher, codec: Codec, accepting: bool, owner: Owner | None = None) -> None:
        """`codec`: for our own requests. An accepting side uses its peer's codec after the peer's first request."""
        self._dispatcher = dispatcher
        self._tap = dispatcher.tap
        self._accepting = accepting
        self._owner = owner
        self._codec = codec
        self._reader = FrameReader(
            dispatcher.routes, Call, self, self._receive_answer, HEADER_BYTES_MAX if accepting else FRAME_BYTES_MAX
        )
        self.transport: asyncio.Transport | None = None
        self.local_address: tuple[str, int] = ("", 0)
        self.store_host = b""
        """This side's address as the peer reaches it, 8 or 20 bytes. The accepting server sets it."""
        self.store_id_prefix = ""
        """The prefix of the offset message ids that are sent to the peer."""
        self.born_host = b""
        """The peer's packed address: the born host of the messages that it sends."""
        self.client_id: str | None = None
        self.signed_in: SignIn | None = None
        """The access key of the peer's requests, if it sent one for the whole connection."""
        self.was_heard = True
        """Whether any data was received since this was last reset; see Server.close_idle."""
        self.is_tls = False
        """Whether the peer spoke TLS first."""
        self.closed: asyncio.Future[None] | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._bursting = False
        self._flush_planned = False
        self._pending: PendingAnswers | None = None
        self._opaque = 0
        self._paused: asyncio.Future[None] | None = None
        # Whether received frames wait until the peer reads its responses.
        self._is_behind = False
        self._is_unfinished = False
        self._when_taken: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        # The transport itself, which an outlet or TLS may cover.
        self._wire: asyncio.Transport | None = None
        self._rejected_for = ""
        self._closing: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> Peer:
        return self._reader.peer

    def read_slowly(self) -> None:
        """Have the next request judged by `Routes.watch`, if it judges."""
        self._reader.read_slowly()

    @property
    def codec(self) -> Codec:
        """The codec of our own requests."""
        return (self._reader.codec or self._codec) if self._accepting else self._codec

    @codec.setter
    def codec(self, codec: Codec) -> None:
        self._codec = codec

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self._reader.peer = Peer(format_address(plain_host(host), port))
        # This is set after the peer, because an outlet that replaces the transport reads the peer.
        self._wire = cast(asyncio.Transport, transport)
        self.transport = self._dispatcher.outlet(self, self._wire)
        self._loop = asyncio.get_running_loop()
        self._pending = PendingAnswers(self._loop, self._expired)
        self.closed = self._loop.create_future()
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        host, port = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self.local_address = plain_host(host), port
        if self._owner is not None:
            self._owner.connected(self)

    def require_tls(self) -> None:
        """Refuse plain text: nothing of it is handled."""
        self._reader.needs_tls = True

    def begin_tls(self, cover: Callable[[asyncio.Transport, bytes], asyncio.Transport]) -> None:
        """Receive and send through TLS from now on. `cover` gets the transport and the first bytes."""
        if self._wire is not None:
            self.is_tls = True
            first = self._reader.take_first()
            self.transport = self._dispatcher.outlet(self, cover(self._wire, first))

    def eof_received(self) -> bool | None:
        # The transport closes itself, as soon as it has sent what it has.
        self._limit_closing()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = self._wire = None
        if self._closing is not None:
            self._closing.cancel()
        if self._dispatcher.heard_last is self:
            self._dispatcher.heard_last = None
        self._reader.clear()
        self._out.clear()
        self._when_taken.clear()
        self.resume_writing()
        if self.closed is not None and not self.closed.done():
            self.closed.set_result(None)
        if self._owner is not None:
            self._owner.disconnected(self)
        if isinstance(exc, ProtocolError):
            self._rejected_for = str(exc)
        for pending in self._pending.take_all() if self._pending is not None else ():
            words = f"connection to {self.peer.address} lost before the response to {pending.name}"
            self._tell(pending, ConnectionLost(self._with_reason(words)))

    def _with_reason(self, words: str) -> str:
        failure = None if self.transport is None else self.transport.get_extra_info("tls_failure")
        reason = self._rejected_for or failure
        return f"{words}: {reason}" if reason else words

    def pause_writing(self) -> None:
        if self._loop is not None and self._paused is None:
            self._paused = self._loop.create_future()
        if self._accepting and self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._paused is not None:
            self._paused.set_result(None)
            self._paused = None
        if self._accepting and self._loop is not None and self.is_open:
            self._loop.call_soon(self._go_on)

    def data_received(self, data: bytes) -> None:
        self.was_heard = True
        tap, reader = self._tap, self._reader
        if tap is not None:
            tap.note(tap.make(tap.uptime_ns(), self.client_id, reader.peer, reader.unread_bytes, data))
        if self._paused is None and not self._is_behind:
            called = self._reader.only(data)
            if called is not None:
                self._handle_one(*called)
                return
        if not self._reader.receive(data):
            self._note_unfinished(is_new=False)
        elif self._is_behind:
            # This data is handled after the data that already waits.
            pass
        elif self._is_blocked():
            self._is_behind = True
        else:
            self._handle_burst()

    # -- bursts --------------------------------------------------------------------------------------------------

    def _handle_burst(self) -> None:
        """Handle the complete frames, settle, and write the responses. This is a hot path."""
        dispatcher, reader, out = self._dispatcher, self._reader, self._out
        is_alone = dispatcher.heard_last is self
        dispatcher.heard_last = self
        burst_bytes, pieces_max = (BURST_BYTES, PIECES_MAX) if is_alone else (_NO_LIMIT, _NO_LIMIT)
        self._bursting = True
        settle_at = reader.unread_bytes - burst_bytes
        try:
            while (calls := reader.calls(reader.unread_bytes - settle_at)) is not None:
                rest = iter(calls)
                for handler, call in rest:
                    try:
                        answer = handler(call)
                    except Exception as error:  # noqa: BLE001 (any failure of a handler becomes its response)
                        answer = failure(error, call)
                    if answer is not None and not call.oneway:
                        self.send_answer(call, answer)
                        if len(out) >= pieces_max or self._out_bytes >= LONG_BYTES:
                            self.flush()
                            if self._must_wait():
                                reader.give_back(list(rest))
                if reader.unread_bytes > max(settle_at, 0) and not self._is_behind:
                    continue
                # The peer can continue while the rest of its burst is handled.
                self._settle()
                if self._must_wait() or not reader.unread_bytes:
                    break
                self._bursting = True
                settle_at = reader.unread_bytes - burst_bytes
            else:
                self._settle()
        except ProtocolError as error:
            self._settle()
            if self._owner is None or not self._owner.takes_over(self, error):
                self.reject(str(error))
            return
        self._bursting = False
        if reader.unread_bytes or self._is_unfinished:
            self._note_unfinished(is_new=True)

    def _handle_one(self, handler: Handler, call: Call) -> None:
        """Like `_handle_burst`, for a single call. This is a hot path."""
        self._dispatcher.heard_last = self
        self._bursting = True
        try:
            answer = handler(call)
        except Exception as error:  # noqa: BLE001 (any failure of a handler becomes its response)
            answer = failure(error, call)
        if answer is not None and not call.oneway:
            self.send_answer(call, answer)
        self._settle()
        if self._is_unfinished:
            self._note_unfinished(is_new=True)

    def _is_blocked(self) -> bool:
        """Return whether the peer must read its responses before more of its requests are handled."""
        return self._paused is not None and self._accepting

    def _must_wait(self) -> bool:
        """Return whether the rest of a burst must wait; if so, `_go_on` handles it later."""
        self._is_behind = self._is_blocked()
        return self._is_behind

    def _go_on(self) -> None:
        """Handle the calls that waited until the peer read its responses, and resume reading."""
        if self._is_blocked() or not self.is_open or self.transport is None:
            return
        if self._is_behind:
            self._is_behind = False
            self._handle_burst()
        waiting, self._when_taken = deque(self._when_taken), []
        while waiting and self.takes_answers:
            waiting.popleft()()
        self._when_taken = [*waiting, *self._when_taken]
        self._read_on()

    def _read_on(self) -> None:
        if self.transport is not None and self.takes_answers and self.is_open:
            self.transport.resume_reading()

    def _settle(self) -> None:
        self._bursting = False
        settle = self._dispatcher.settle
        if settle is not None:
            self._bursting = True
            try:
                settle()
            finally:
                self._bursting = False
        if self._out:
            self.flush()

    def _note_unfinished(self, is_new: bool) -> None:
        unread_bytes = 0 if self._is_behind else self._reader.unread_bytes
        if self._owner is not None:
            self._is_unfinished = unread_bytes > 0
            self._owner.left_unfinished(self, unread_bytes, is_new)

    # -- responses -----------------------------------------------------------------------------------------------

    def send_answer(self, call: Call, answer: Answer) -> None:
        """Add a response to the write of this burst, or plan a separate write."""
        if self.transport is None:
            return
        try:
            self._out_bytes += call.codec.write_answer(self._out, answer, call.opaque, self.store_host)
        except Exception as error:  # noqa: BLE001 (a response that can't be written becomes a refusal)
            self._refuse_instead(call, answer, error)
        if not self._bursting:
            self._plan_flush()

    def _refuse_instead(self, call: Call, answer: Answer, error: Exception) -> None:
        """Send an error in place of a response that can't be written: it is too long, or a number exceeds its field."""
        words = str(error)
        if not isinstance(error, ProtocolError):
            words = f"the response {type(answer).__name__} can't be encoded: {type(error).__name__}: {error}"
            log.error("answer_failed", request=type(call.request).__name__, peer=self.peer.address, error=repr(error))
        call.codec.write_answer(self._out, refusal(_SYSTEM_ERROR, words), call.opaque, self.store_host)

    def outgoing(self) -> list[bytes] | None:
        """Return the frames of the next write: of this burst, or a separate one. None: the connection is closed."""
        if self.transport is None:
            return None
        if not self._bursting:
            self._plan_flush()
        return self._out

    def _plan_flush(self) -> None:
        if not self._flush_planned and self._loop is not None:
            self._flush_planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the requests and responses so far at once, instead of at the end of this tick or burst."""
        self._flush_planned = False
        self._out_bytes = 0
        out = self._out
        if out and self.transport is not None:
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def _flush_if_much(self) -> None:
        if self._out_bytes >= OUT_BYTES_MAX:
            self.flush()

    @property
    def takes_answers(self) -> bool:
        """Whether the peer reads its responses. If it doesn't, a handler with a long response uses `when_taken`."""
        self._flush_if_much()
        return not self._is_blocked()

    def when_taken(self, look_again: Callable[[], None]) -> None:
        """Call a function as soon as the peer has read its responses. It is dropped if the connection is lost."""
        self._when_taken.append(look_again)

    def _receive_answer(self, frame: AnswerFrame) -> None:
        codec, envelope, body = frame
        pending = self._pending.take(envelope.opaque) if self._pending is not None else None
        if pending is None:
            log.debug("answer_unexpected", peer=self.peer.address, opaque=envelope.opaque, code=envelope.code)
            return
        outcome: Reply
        try:
            outcome = codec.decode_answer(pending.shape, envelope, body)
        except ProtocolError as error:
            outcome = error.with_traceback(None)
        self._tell(pending, outcome)
        # The traceback of the error's cause refers to these variables, and a pending request isn't tracked by the
        # garbage collector.
        del pending

    def _tell(self, pending: PendingAnswer, outcome: Reply) -> None:
        try:
            pending.on_outcome(outcome)
        except Exception as error:  # noqa: BLE001 (a callback's failure must not affect other requests)
            assert self._loop is not None
            words = f"the response to {pending.name} from {self.peer.address} could not be handled"
            self._loop.call_exception_handler({"message": words, "exception": error})

    # -- requests of ours ----------------------------------------------------------------------------------------

    def ask(self, request: Request, timeout_ms: int) -> asyncio.Future[Answer]:
        """Send a request with this tick's write and return the future of its response.

        The future raises ConnectionLost or AnswerTimeout, and ProtocolError for a response that can't be read. A
        refusal is a response, too: check its code.
        """
        future: asyncio.Future[Answer] = asyncio.Future(loop=self._loop)
        self.ask_for(request, timeout_ms, partial(_settle, future))
        self._plan_flush()
        return future

    def ask_for(self, request: Request, timeout_ms: int, on_outcome: Callable[[Reply], None]) -> None:
        """Send a request with the next `flush`, and call `on_outcome` with its outcome.

        `on_outcome` is called while the read that contains the response is handled: one turn of the event loop earlier
        than with a future.
        """
        if self.transport is None or self.transport.is_closing() or self._pending is None:
            raise ConnectionLost(self._with_reason(f"not connected to {self.peer.address}"))
        declaration = declaration_of(type(request))
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        frame = self.codec.encode_request(request, opaque, False)
        self._pending.add(opaque, on_outcome, declaration.answer, declaration.name, timeout_ms)
        self._out.append(frame)

    def tell(self, request: Request) -> None:
        """Send a one-way request, which gets no response."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLost(f"not connected to {self.peer.address}")
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        self._out.append(self.codec.encode_request(request, opaque, True))
        if not self._bursting:
            self._plan_flush()

    def _expired(self, pending: PendingAnswer) -> None:
        words = f"no response to {pending.name} from {self.peer.address} within {pending.timeout_ms} ms"
        self._tell(pending, AnswerTimeout(words))

    def writable(self) -> Awaitable[None] | None:
        """Return None if the peer reads what is written; otherwise an awaitable that ends when it does."""
        return None if self._paused is None else asyncio.shield(self._paused)

    # -- closing -------------------------------------------------------------------------------------------------

    @property
    def bare_transport(self) -> asyncio.Transport | None:
        """The transport, if this connection writes to it as it is: neither TLS nor an outlet covers it."""
        return self._wire if self.transport is self._wire else None

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def reject(self, words: str) -> None:
        """Close the connection because of what the peer sent, and drop what isn't handled yet.

        If it is being closed, no other reason is reported.
        """
        if self.is_open:
            self._rejected_for = words
            if self._owner is not None:
                self._owner.rejected(self, words)
        self._reader.clear()
        self.close()

    def close(self) -> None:
        """Close the connection after the written data was sent, but within CLOSING_MS_MAX."""
        if self.transport is not None:
            self.flush()
            self.transport.close()
            self._limit_closing()

    def _limit_closing(self) -> None:
        if self._closing is None and self._loop is not None:
            self._closing = self._loop.call_later(CLOSING_MS_MAX / 1_000, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()


def _settle(future: asyncio.Future[Answer], outcome: Reply) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
