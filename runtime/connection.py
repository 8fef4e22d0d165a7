"""One TCP connection: frames in, handlers called, answers out. The hot dispatcher.

A connection is symmetric: both sides may ask. What one read of the socket brings is a *burst*:

    1. each whole frame is decoded and its handler called at once, without a task or a future;
    2. `Dispatcher.settle` runs: the broker writes all records of the burst with one file write and answers their sends;
    3. all answers leave with one `transport.write`.

A long read of the only busy connection is several bursts: its peer has something to do while the rest is handled.

A handler returns its answer, or None and answers later through `Call.answer` (a held pull, a sync flush), or is a
coroutine function, for which a task is made. What a handler raises becomes an error answer; malformed bytes close
the connection with one log line and nothing else.

Back-pressure: an accepting side stops reading while the peer doesn't take its answers; an asking side waits in
`writable()`. The asking side never stops reading, or two full buffers would wait for each other.

This module is longer and flatter than others: it is the hot path.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutinefunction
from struct import Struct
from typing import Any, cast

import msgspec

from staticfire.protocol import requests as _declarations  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import ANSWER_FLAG, JSON, NATIVE, ONEWAY_FLAG, Codec, Envelope, codec_for
from staticfire.protocol.codecs.hot_json import read_header
from staticfire.protocol.codecs.native import ARRAY_OF_7, CODEC_WORD, ENVELOPE_BYTES, ENVELOPE_HEADER_BYTES, U32
from staticfire.protocol.codes import LANGUAGES_BY_NAME, LanguageCode, ResponseCode, name_of_request
from staticfire.protocol.command import REQUESTS, Answer, Request, Shape, declaration_of, refusal
from staticfire.protocol.errors import AnswerTimeout, BrokerAnswer, ConnectionLost, ProtocolError, StorageError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from staticfire.runtime.addresses import format_address, plain_host
from staticfire.runtime.log import logger

log = logger("connection")

WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
# Of answers that the peer has not taken; above that nothing more is read from it.

BURST_BYTES = 48 * 1024
# Of requests; more are several bursts if only one connection is busy. With 64 sends of 1 KiB in flight on it, peer and
# broker would else take turns, and each wait while the other works: 16 us per send instead of 14. With eight busy
# connections nobody waits, and more bursts would take a tenth longer.
PIECES_MAX = 64
# Of answers, for the same reason: two pulls of 32 messages leave while the next are looked up.
_NO_LIMIT = 1 << 62

Handler = Callable[["Call"], Answer | None]
AsyncHandler = Callable[["Call"], Coroutine[Any, Any, Answer | None]]

Decode = Callable[[bytes], Any]

_HEAD = Struct(">II").unpack_from
_native_start = Struct(">II7sI6s").unpack_from
# As far as the header's fields, see native.py: length, codec and header length, seven bytes that say which code,
# opaque, and the six bytes from the flag to the remark.
_pack_code = Struct(">BBIB").pack
_WORD_WITHOUT_FIELDS = CODEC_WORD | ENVELOPE_HEADER_BYTES
# Codec and header length of a header whose fields have no bytes.
_TAIL_AT = 19
_NO_TAIL = b""
_OTHER_LANGUAGE = int(LanguageCode.OTHER)
_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
_LENGTH_MAX = FRAME_BYTES_MAX - 4
_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Peer(msgspec.Struct, gc=False, frozen=True):
    """Who is on the other side, as far as its frames tell."""

    address: str
    version: int = 0
    language: int = 0


class Call(msgspec.Struct, gc=False):
    """One request on its way through a handler."""

    request: Any
    opaque: int
    oneway: bool
    codec: Codec
    connection: "Connection"

    @property
    def peer(self) -> Peer:
        return self.connection.peer

    def answer(self, answer: Answer) -> None:
        """Answer now: for handlers that returned None. Nothing happens for a one-way call or a lost connection."""
        if not self.oneway:
            self.connection.send_answer(self, answer)


class Dispatcher:
    """Who handles which request code, for all connections of a server or client."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.hot: dict[bytes, tuple[int, Decode, Handler]] = {}
        """Those of requests whose body is bytes as they are, with their code and what reads their header fields.

        By how the code stands in a native header, with what surrounds it.
        """
        self.settle: Callable[[], None] | None = None
        """Run after each burst that called a handler."""
        self.intercept: Callable[[Call, int], bool] | None = None
        """Live faults: sees each request before its handler; True means that it took the call over."""
        self.heard_last: Connection | None = None
        """Whom the last burst came from: who is heard twice in a row is the only one who is busy."""
        self.connected: Callable[[Connection], None] | None = None
        self.disconnected: Callable[[Connection], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, code: int, handler: Handler | AsyncHandler) -> None:
        """File a handler under its request code. Raises: ValueError when the code has one."""
        if int(code) in self.handlers:
            raise ValueError(f"{name_of_request(code)} has a handler already")
        if int(code) not in REQUESTS:
            raise ValueError(f"{name_of_request(code)} is not declared")
        filed = self._in_task(cast(AsyncHandler, handler)) if iscoroutinefunction(handler) else cast(Handler, handler)
        self.handlers[int(code)] = filed
        request = REQUESTS[int(code)].request
        if request.hot_body:
            in_header = _pack_code(ARRAY_OF_7, U32, int(code), U32)
            self.hot[in_header] = int(code), request.native.decode, filed

    def _in_task(self, handler: AsyncHandler) -> Handler:
        def start(call: Call) -> None:
            task = asyncio.get_running_loop().create_task(self._run(handler, call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return start

    async def _run(self, handler: AsyncHandler, call: Call) -> None:
        try:
            answer = await handler(call)
        except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
            answer = failure(error, call)
        if answer is not None:
            call.answer(answer)

    async def close(self) -> None:
        """Cancel the handlers that still wait, and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def failure(error: Exception, call: Call) -> Answer:
    """Return the answer that tells of an exception: a refusal's own code, or SYSTEM_ERROR with its name."""
    if isinstance(error, BrokerAnswer):
        return refusal(error.code, error.remark)
    if isinstance(error, ProtocolError):
        return refusal(_SYSTEM_ERROR, str(error))  # What was asked made no sense after all.
    log.error("handler_failed", request=type(call.request).__name__, peer=call.peer.address, error=repr(error))
    if isinstance(error, StorageError):
        return refusal(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    return refusal(_SYSTEM_ERROR, f"{type(error).__name__}: {error}")


class _Waiting(msgspec.Struct, gc=False):
    future: asyncio.Future[Answer]
    shape: Shape
    timer: asyncio.TimerHandle
    asked: str


class Connection(asyncio.Protocol):
    """One connection. Created by a `Server` or a client's pool; everything else holds it by reference."""

    def __init__(self, dispatcher: Dispatcher, codec: Codec, accepting: bool) -> None:
        """`codec`: for requests of ours; an accepting side changes it to what the peer shows."""
        self._dispatcher = dispatcher
        self._handlers = dispatcher.handlers
        self._accepting = accepting
        self.codec = codec
        self.transport: asyncio.Transport | None = None
        self.peer = Peer("?")
        self.local_address: tuple[str, int] = ("", 0)
        self.store_host = b""
        """This side's address as the peer reaches it, 8 or 20 bytes: set by who accepts connections."""
        self.store_id_prefix = ""
        """What the offset message ids begin with that the peer is told."""
        self.born_host = b""
        """The peer's address, packed: the born host of what it sends."""
        self.client_id: str | None = None
        self.was_heard = True
        """Whether anything came in since somebody last looked; see Server.close_idle."""
        self.closed: asyncio.Future[None] | None = None
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._wanted_bytes = 8
        self._out: list[bytes] = []
        self._bursting = False
        self._burst_bytes = self._pieces_max = _NO_LIMIT
        self._flush_planned = False
        self._waiting: dict[int, _Waiting] = {}
        self._opaque = 0
        self._paused: asyncio.Future[None] | None = None
        self._started = False
        self._tail = _NO_TAIL
        # What stands between opaque and fields of the peer's native requests: no flag, its version and language, no
        # remark. As long as that stays the same, there is nothing to read there.
        self._json_version: int | None = None
        self._json_language: str | None = None
        # What `peer` was made of, if its last request was JSON.
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- asyncio's side ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer = Peer(format_address(plain_host(host), port))
        host, port = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self.local_address = plain_host(host), port
        if self._dispatcher.connected is not None:
            self._dispatcher.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._dispatcher.heard_last is self:
            self._dispatcher.heard_last = None
        self._partial.clear()
        self._out.clear()
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            entry.timer.cancel()
            if not entry.future.done():
                entry.future.set_exception(
                    ConnectionLost(f"connection to {self.peer.address} lost before the answer to {entry.asked}")
                )
        self.resume_writing()
        if self.closed is not None and not self.closed.done():
            self.closed.set_result(None)
        if self._dispatcher.disconnected is not None:
            self._dispatcher.disconnected(self)

    def pause_writing(self) -> None:
        if self._loop is not None and self._paused is None:
            self._paused = self._loop.create_future()
        if self._accepting and self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._paused is not None:
            self._paused.set_result(None)
            self._paused = None
        if self._accepting and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self.was_heard = True
        if self._partial:
            self._partial.append(data)
            self._partial_bytes += len(data)
            if self._partial_bytes < self._wanted_bytes:
                return
            data = b"".join(self._partial)
            self._partial.clear()
        is_alone = self._dispatcher.heard_last is self
        self._dispatcher.heard_last = self
        self._burst_bytes, self._pieces_max = (BURST_BYTES, PIECES_MAX) if is_alone else (_NO_LIMIT, _NO_LIMIT)
        self._bursting = True
        try:
            at = self._read_frames(data)
        except ProtocolError as error:
            self._bursting = False
            self._settle()
            self.reject(str(error))
            return
        self._bursting = False
        if at < len(data):
            self._partial.append(data[at:] if at else data)
            self._partial_bytes = len(data) - at
        self._settle()

    def _settle(self) -> None:
        if self._dispatcher.settle is not None:
            self._bursting = True
            try:
                self._dispatcher.settle()
            finally:
                self._bursting = False
        if self._out:
            self._flush()

    # -- the hot loop --------------------------------------------------------------------------------------------

    def _read_frames(self, data: bytes) -> int:
        """Handle all whole frames; return where the first unfinished one begins. Raises: ProtocolError."""
        at, end = 0, len(data)
        if not self._started and end:
            self._started = True
            recognise(data)
        self._wanted_bytes = 8
        while True:
            at = self._native_fast_path(data, at, end) if self._tail else self._json_fast_path(data, at, end)
            if end - at < 8:
                return at
            length, word = _HEAD(data, at)
            if length > _LENGTH_MAX or length < 4 or word & 0xFFFFFF > length - 4:
                self._reject_length(data, at, length, word)
            stop = at + 4 + length
            if stop > end:
                self._wanted_bytes = 4 + length
                return at
            self._slow_path(data, at, at + 8 + (word & 0xFFFFFF), stop, word)
            at = stop

    def _native_fast_path(self, data: bytes, at: int, end: int) -> int:
        """Handle native requests as long as they are like the last one; return where something else begins.

        The straight way of send and pull. Everything else, every error included, goes through `_slow_path`.
        """
        hot, intercept, tail = self._dispatcher.hot, self._dispatcher.intercept, self._tail
        settle_at = at + self._burst_bytes
        while end - at >= ENVELOPE_BYTES:
            length, word, code_bytes, opaque, this_tail = _native_start(data, at)
            found = hot.get(code_bytes)
            if found is None or this_tail != tail:
                break
            fields_at = at + ENVELOPE_BYTES
            body_at = fields_at + word - _WORD_WITHOUT_FIELDS
            stop = at + 4 + length
            if not fields_at <= body_at <= stop <= end:
                break
            code, decode, handler = found
            try:
                request = decode(data[fields_at:body_at])
            except _DECODE_ERRORS:
                break
            request.body = data[body_at:stop]
            at = stop
            call = Call(request, opaque, False, _NATIVE_CODEC, self)
            if intercept is not None and intercept(call, code):
                continue
            try:
                answer = handler(call)
            except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
                answer = failure(error, call)
            if answer is not None:
                self.send_answer(call, answer)
                if len(self._out) >= self._pieces_max:
                    self._flush()
            if at >= settle_at:
                self._settle_early()
                settle_at = at + self._burst_bytes
        return at

    def _json_fast_path(self, data: bytes, at: int, end: int) -> int:
        """Handle JSON requests as long as their headers can be read at once; return where something else begins.

        The straight way of send and pull over JSON. Everything else, every error included, goes through `_slow_path`.
        """
        handlers, intercept, settle_at = self._handlers, self._dispatcher.intercept, at + self._burst_bytes
        while end - at >= 8:
            length, header_bytes = _HEAD(data, at)
            body_at = at + 8 + header_bytes
            stop = at + 4 + length
            # A header that is longer has another codec, or is refused.
            if header_bytes > HEADER_BYTES_MAX or not body_at <= stop <= end or length > _LENGTH_MAX:
                break
            header = read_header(data, at + 8, body_at)
            if header is None or header.flag or header.remark:
                break
            code = header.code
            handler = handlers.get(code)
            if handler is None:
                break
            request = header.extFields
            request.body = data[body_at:stop]
            at = stop
            if header.version != self._json_version or header.language != self._json_language:
                self._note_json_peer(header.version, header.language)
            call = Call(request, header.opaque, False, _JSON_CODEC, self)
            if intercept is not None and intercept(call, code):
                continue
            try:
                answer = handler(call)
            except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
                answer = failure(error, call)
            if answer is not None:
                self.send_answer(call, answer)
                if len(self._out) >= self._pieces_max:
                    self._flush()
            if at >= settle_at:
                self._settle_early()
                settle_at = at + self._burst_bytes
        return at

    def _note_json_peer(self, version: int, language: str | None) -> None:
        """Remember who speaks JSON here, so that with the next requests two comparisons are enough."""
        if self._accepting:
            self.codec = _JSON_CODEC
        self._json_version, self._json_language = version, language
        self.peer = Peer(self.peer.address, version, LANGUAGES_BY_NAME.get(language or "", _OTHER_LANGUAGE))

    def _settle_early(self) -> None:
        """Write and answer what has come so far: the peer goes on while the rest of its burst is handled."""
        self._settle()
        self._bursting = True

    def _slow_path(self, data: bytes, at: int, body_at: int, stop: int, word: int) -> None:
        """Handle one frame of any codec, request or answer. Raises: ProtocolError when its header can't be read."""
        codec = codec_for(word >> 24)
        if word & 0xFFFFFF > HEADER_BYTES_MAX and self._accepting:
            raise ProtocolError(f"a header of {word & 0xFFFFFF} bytes is over the limit of {HEADER_BYTES_MAX}")
        envelope = codec.decode_envelope(data[at + 8 : body_at])
        self._json_version = None
        if self.peer.version != envelope.version or self.peer.language != envelope.language:
            self.peer = Peer(self.peer.address, envelope.version, envelope.language)
        if envelope.flag & ANSWER_FLAG:
            self._receive_answer(codec, envelope, data[body_at:stop])
            return
        if self._accepting:
            self.codec = codec
        is_plain = codec is _NATIVE_CODEC and envelope.flag == 0 and envelope.remark is None and self._accepting
        self._tail = data[at + _TAIL_AT : at + ENVELOPE_BYTES] if is_plain else _NO_TAIL
        call = Call(None, envelope.opaque, envelope.flag & ONEWAY_FLAG != 0, codec, self)
        handler = self._handlers.get(envelope.code)
        if handler is None:
            remark = f" request type {envelope.code} not supported"
            call.answer(
                refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{remark} ({name_of_request(envelope.code)})")
            )
            return
        try:
            call.request = codec.decode_request(REQUESTS[envelope.code], envelope, data[body_at:stop])
        except ProtocolError as error:
            call.answer(refusal(ResponseCode.SYSTEM_ERROR, str(error)))
            return
        self._handle(handler, call, envelope.code)

    def _handle(self, handler: Handler, call: Call, code: int) -> None:
        if self._dispatcher.intercept is not None and self._dispatcher.intercept(call, code):
            return
        try:
            answer = handler(call)
        except Exception as error:  # noqa: BLE001 (one request in the dispatcher: its failure is its answer)
            answer = failure(error, call)
        if answer is not None and not call.oneway:
            self.send_answer(call, answer)

    def _reject_length(self, data: bytes, at: int, length: int, word: int) -> None:
        """Tell what is wrong with a frame's length; a request whose header can be read is answered before that."""
        header_bytes = word & 0xFFFFFF
        if length <= _LENGTH_MAX:
            raise ProtocolError(f"a frame of {length} bytes with a header of {header_bytes} bytes")
        words = f"a frame of {length + 4} bytes is over the limit of {FRAME_BYTES_MAX}"
        if header_bytes <= HEADER_BYTES_MAX and at + 8 + header_bytes <= len(data):
            codec = codec_for(word >> 24)
            envelope = codec.decode_envelope(data[at + 8 : at + 8 + header_bytes])
            if not envelope.flag & ANSWER_FLAG:
                call = Call(None, envelope.opaque, envelope.flag & ONEWAY_FLAG != 0, codec, self)
                call.answer(refusal(ResponseCode.MESSAGE_ILLEGAL, words))
        raise ProtocolError(words)

    # -- answers -------------------------------------------------------------------------------------------------

    def send_answer(self, call: Call, answer: Answer) -> None:
        """Put an answer into this burst's write, or into one of its own."""
        if self.transport is None:
            return
        try:
            call.codec.write_answer(self._out, answer, call.opaque, self.store_host)
        except ProtocolError as error:
            call.codec.write_answer(self._out, refusal(_SYSTEM_ERROR, str(error)), call.opaque, self.store_host)
        if not self._bursting:
            self._plan_flush()

    def outgoing(self) -> list[bytes] | None:
        """Return where frames go that leave with this burst's write, or one of its own; None: nobody wants them."""
        if self.transport is None:
            return None
        if not self._bursting:
            self._plan_flush()
        return self._out

    def _plan_flush(self) -> None:
        if not self._flush_planned and self._loop is not None:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        out = self._out
        if out and self.transport is not None:
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def _receive_answer(self, codec: Codec, envelope: Envelope, body: bytes) -> None:
        entry = self._waiting.pop(envelope.opaque, None)
        if entry is None:
            log.debug("answer_unexpected", peer=self.peer.address, opaque=envelope.opaque, code=envelope.code)
            return
        entry.timer.cancel()
        future, shape = entry.future, entry.shape
        del entry
        # The future holds an error's traceback, and that these variables; the collector doesn't look into an entry, so
        # that nothing of it would ever be freed.
        if future.done():
            return
        try:
            future.set_result(codec.decode_answer(shape, envelope, body))
        except ProtocolError as error:
            future.set_exception(error)

    # -- requests of ours ----------------------------------------------------------------------------------------

    def ask(self, request: Request, timeout_ms: int) -> asyncio.Future[Answer]:
        """Send a request with this tick's write and return the future of its answer.

        The future raises ConnectionLost or AnswerTimeout, and ProtocolError for an answer that can't be read. An
        answer that says no is an answer: look at its code.
        """
        if self.transport is None or self.transport.is_closing() or self._loop is None:
            raise ConnectionLost(f"not connected to {self.peer.address}")
        declaration = declaration_of(type(request))
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        frame = self.codec.encode_request(request, opaque, False)
        future: asyncio.Future[Answer] = self._loop.create_future()
        timer = self._loop.call_later(timeout_ms / 1000, self._expire, opaque, timeout_ms)
        self._waiting[opaque] = _Waiting(future, declaration.answer, timer, declaration.name)
        self._out.append(frame)
        self._plan_flush()
        return future

    def tell(self, request: Request) -> None:
        """Send a request that wants no answer."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionLost(f"not connected to {self.peer.address}")
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        self._out.append(self.codec.encode_request(request, opaque, True))
        if not self._bursting:
            self._plan_flush()

    def _expire(self, opaque: int, timeout_ms: int) -> None:
        entry = self._waiting.pop(opaque, None)
        if entry is not None and not entry.future.done():
            words = f"no answer to {entry.asked} from {self.peer.address} within {timeout_ms} ms"
            entry.future.set_exception(AnswerTimeout(words))

    def flush(self) -> None:
        """Write at once what was asked so far, instead of at the end of this tick."""
        self._flush()

    def writable(self) -> Awaitable[None] | None:
        """Return None when the peer takes what is written, else what to await until it does."""
        return None if self._paused is None else asyncio.shield(self._paused)

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def reject(self, words: str) -> None:
        """Close because of what the peer sent."""
        log.warning("connection_rejected", peer=self.peer.address, reason=words)
        self.close()

    def close(self) -> None:
        """Close after what is written has left."""
        if self.transport is not None:
            self._flush()
            self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()


def recognise(data: bytes) -> None:
    """Say what the first bytes of a connection are when they are another protocol's. Raises: ProtocolError.

    A frame's length is below 16 MiB, so its first byte is 0 (or 1); anything else isn't RocketMQ remoting.
    """
    if data[0] <= 1:
        return
    if data[:2] == b"\x16\x03":
        raise ProtocolError("this is TLS; staticfire speaks plain TCP: turn useTLS off in the client")
    if b"PRI * HTTP/2".startswith(data[:12]):
        raise ProtocolError("this is HTTP/2, so probably a 5.x gRPC client; it needs a proxy, remoting clients don't")
    if data.split(b" ", 1)[0] in (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH"):
        raise ProtocolError("this is HTTP; this port speaks RocketMQ remoting, the control endpoint is another port")
    raise ProtocolError(f"these bytes are no frame: {data[:16].hex(' ')}")


_NATIVE_CODEC = codec_for(NATIVE)
_JSON_CODEC = codec_for(JSON)
