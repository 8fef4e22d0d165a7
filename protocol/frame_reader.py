"""Bytes in, calls out: the frames of one connection. It has no socket and no clock, and calls no handler itself.

`receive` buffers received bytes. `calls` returns one pair per complete frame: its handler, and the call to pass to it.
A frame that can't be understood becomes a call, too: its handler returns the refusal. So the user of this class has one
loop and may leave it after any call; it gives the other calls back, and the next `calls` returns them again.

Most frames look like the one before. A hot codec reads those in one step each (`_hot`: `HotNativeRequests` or
`HotJsonRequests`). Everything else, also every error, is read part by part (`_slow_path`). Both make the same calls.

Bytes that aren't a frame raise ProtocolError. Then the connection must be closed: where the next frame begins is
unknown.
"""
# house: the ways to read a frame share the state of one reader: quickly, part by part, a long response in pieces

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, cast

import msgspec

from staticfire.protocol import requests as _declarations  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import (
    ANSWER_FLAG,
    JSON,
    NATIVE,
    ONEWAY_FLAG,
    Called,
    Codec,
    Envelope,
    MakeCall,
    Offers,
    RequestWatch,
    SendRuns,
    codec_for,
)
from staticfire.protocol.codecs.hot_json import HotJsonRequests
from staticfire.protocol.codecs.hot_native import HotNativeRequests, HotTable, request_mark
from staticfire.protocol.codes import ResponseCode, name_of_request
from staticfire.protocol.command import REQUESTS, Answer, refusal
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.first_bytes import TLS_FIRST, PlainText, recognise
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

Handler = Callable[[Any], Answer | None]
Guard = Callable[[int, Handler], Handler]
"""Returns the handler that replaces the handler of a request code."""
# Length, codec, header length.
HEAD_BYTES = 8
# The size from which a response in several pieces isn't joined with its header first.
LONG_BYTES = 128 * 1024
_ACCESS_KEY = b'"AccessKey"'
_HEAD = Struct(">II").unpack_from
_LENGTH_MAX = FRAME_BYTES_MAX - 4
_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Peer(msgspec.Struct, gc=False, frozen=True):
    """The peer of a connection, as its frames describe it."""

    address: str
    version: int = 0
    language: int = 0


class AnswerFrame(NamedTuple):
    """A received response. Only the sender of the request has the type of its fields."""

    codec: Codec
    envelope: Envelope
    body: bytes


class Routes:
    """The handlers by request code, shared by all readers of a server or client."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.hot: HotTable = {}
        """The handlers of received codes whose body is raw bytes, by the bytes of the code in a native header."""
        self.known: set[int] = set()
        """The received codes that have a handler. It is never iterated."""
        self.runs: SendRuns | None = None
        """Takes plain sends all at once, before calls are made for the rest. None if there is nothing that does so, and
        under a guard."""
        self.watch: RequestWatch | None = None
        """Judges requests, or notes their access keys."""
        self._offered: SendRuns | None = None
        self._guard: Guard | None = None
        self._unguarded: dict[int, Handler] = {}

    def offer_sends(self, runs: SendRuns | None) -> None:
        """Offer each received send to `runs` first. Not allowed under a guard."""
        self.runs = self._offered = runs

    def add(self, code: int, handler: Handler) -> None:
        """Add a handler. Raises: ValueError if the code has one, or isn't declared."""
        if code in self.handlers:
            raise ValueError(f"{name_of_request(code)} has a handler already")
        if code not in REQUESTS:
            raise ValueError(f"{name_of_request(code)} is not declared")
        self.handlers[code] = handler

    def expect_more(self, code: int) -> None:
        """Read requests with that code on the fast path from now on, if possible, because one has been received.

        Making a decoder takes time, and there are 60 kinds of requests, so this isn't done at the start.
        """
        handler = self.handlers.get(code)
        if handler is not None:
            self.known.add(code)
            self._read_quickly(code, handler)

    def _read_quickly(self, code: int, handler: Handler) -> None:
        shape = REQUESTS[code].request
        if shape.hot_body:
            self.hot[request_mark(code)] = shape.native.decode, handler

    def guard(self, guard: Guard | None) -> None:
        """Pass every request to the handler that `guard` returns for its code, from the next read on; None: stop that.

        The handlers themselves are replaced, so a request needs no extra lookup. Runs of sends have no handler, so they
        are handled as single requests meanwhile.
        """
        if self._guard is None:
            self._unguarded = dict(self.handlers)
        self._guard = guard
        for code, handler in self._unguarded.items():
            self.handlers[code] = handler if guard is None else guard(code, handler)
            if code in self.known:
                self._read_quickly(code, self.handlers[code])
        self.runs = self._offered if guard is None else None

    def take_over(self, others: "Routes") -> None:
        """Replace these handlers by others' in the tables that readers hold. Not allowed under a guard."""
        self.handlers.update(others.handlers)
        for code in sorted(self.known):
            self._read_quickly(code, self.handlers[code])
        self.offer_sends(others.runs)

    def guarded(self, code: int, refusing: Handler) -> Handler:
        """Return the handler of a request that is refused before it is decoded."""
        return refusing if self._guard is None else self._guard(code, refusing)


class FrameReader:  # house: one state, as the file says
    """The frames of one connection, in the order of arrival."""

    def __init__(
        self,
        routes: Routes,
        make_call: MakeCall,
        source: Any,
        answered: Callable[[AnswerFrame], None],
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        """`source` is passed to each call; `answered` handles the responses to our requests on this connection."""
        self._routes = routes
        self._make_call = make_call
        self._source = source
        self._answered = cast(Handler, answered)
        self._header_bytes_max = header_bytes_max
        self._pieces: list[bytes] = []
        # The position in the first piece up to which it has been read.
        self._at = 0
        self._given_back: list[Called] = []
        self._wanted_bytes = HEAD_BYTES
        self._is_recognised = False
        self.needs_tls = False
        """Whether plain text is refused."""
        # The reason why nothing more can be read.
        self._ended_by = ""
        self._native = HotNativeRequests(codec_for(NATIVE), routes.hot, make_call, source)
        self._json = HotJsonRequests(_JSON_CODEC, routes.handlers, make_call, source, self._heard_json)
        # What reads requests that look like the last one; None if none came so far, or no hot codec can read it.
        self._hot: HotNativeRequests | HotJsonRequests | None = None
        self._offers = Offers()
        self.peer = Peer("?")
        self.codec: Codec | None = None
        """The codec of the peer's last request."""
        self.unread_bytes = 0
        """The size of the data for which no call was made yet."""

    def only(self, data: bytes) -> Called | None:
        """Return the only call, if the bytes are exactly one frame; otherwise None, and nothing has changed.

        This is the case for most reads, unless much is in flight. `receive` and `calls` do the same, but take longer.
        """
        end = len(data)
        if self.unread_bytes or end < HEAD_BYTES or not self._is_recognised:
            return None
        length, word = _HEAD(data)
        body_at = HEAD_BYTES + (word & 0xFFFFFF)
        if length != end - 4 or length > _LENGTH_MAX or body_at > end:
            return None
        hot = self._hot
        if hot is not None:
            if self._offer(hot, data, 0, end):
                return _TAKEN
            self._offers.called(1)
            calls: list[Called] = []
            if hot.read(data, 0, end, calls, 1):
                return calls[0]
        try:
            return self._slow_path(data, 0, body_at, end, word >> 24)
        except ProtocolError:
            return None

    def receive(self, data: bytes) -> bool:
        """Buffer bytes; return whether there may be a complete frame now."""
        self._pieces.append(data)
        self.unread_bytes += len(data)
        if self.unread_bytes >= self._wanted_bytes:
            return True
        # The first byte alone shows that a peer speaks TLS.
        return not self._is_recognised and self._pieces[0][:1] in TLS_FIRST

    def read_slowly(self) -> None:
        """Read the next request part by part, even if it is like the last one."""
        self._hot = None

    def clear(self) -> None:
        """Drop the data that hasn't been read."""
        self._pieces.clear()
        self._given_back.clear()
        self._at, self.unread_bytes, self._wanted_bytes = 0, 0, HEAD_BYTES

    def take_first(self) -> bytes:
        """Return the first bytes of a connection, because they aren't frames but TLS. The frames will be inside."""
        data = b"".join(self._pieces)
        self.clear()
        self.needs_tls = False
        return data

    def give_back(self, calls: list[Called]) -> None:
        """Return these calls from the next `calls` again, because they aren't handled yet."""
        self._given_back = calls

    def calls(self, bytes_wanted: int) -> list[Called] | None:
        """Return handler and call of the next frames, until these have `bytes_wanted`; None if no frame is complete.

        Frames that `Routes.runs` took have no call, so the list may be empty. Raises: ProtocolError if the next bytes
        are no frame.
        """
        if self._given_back:
            calls, self._given_back = self._given_back, []
            return calls
        calls, unread_bytes = [], self.unread_bytes
        try:
            long = self._long_answer() if self._wanted_bytes >= LONG_BYTES else None
            if long is not None:
                return [long]
            self._read(calls, bytes_wanted)
        except ProtocolError:
            if self.unread_bytes == unread_bytes:
                # Otherwise, the calls before it are returned first, and the error is raised again by the next `calls`.
                raise
        return calls if calls or self.unread_bytes < unread_bytes else None

    def _read(self, calls: list[Called], bytes_wanted: int) -> None:
        """Read frames from where the last read ended. Raises: ProtocolError."""
        if self._ended_by:
            raise ProtocolError(self._ended_by)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        at, end, offers = self._at, len(data), self._offers
        stop = min(at + bytes_wanted, end)
        self._wanted_bytes = HEAD_BYTES
        try:
            if end and not self._is_recognised:
                recognise(data)
                if self.needs_tls:
                    raise PlainText("plain text on an enforcing port: turn TLS on in the client (tls.server.mode)")
                self._is_recognised = True
            if self._hot is not None:
                at = self._offer(self._hot, data, at, stop)
            while True:
                if self._hot is not None:
                    at = self._hot.read(data, at, stop, calls, offers.calls_first)
                if at >= stop or end - at < HEAD_BYTES or offers.are_due(len(calls)):
                    return
                length, word = _HEAD(data, at)
                header_bytes = word & 0xFFFFFF
                if length > _LENGTH_MAX or header_bytes > length - 4:
                    calls.append(self._refuse_length(data, at, length, word))
                    return
                frame_end = at + 4 + length
                if frame_end > end:
                    self._wanted_bytes = 4 + length
                    return
                calls.append(self._slow_path(data, at, at + HEAD_BYTES + header_bytes, frame_end, word >> 24))
                at = frame_end
                if offers.are_due(len(calls)):
                    return
        finally:
            offers.called(len(calls))
            self.unread_bytes = end - at
            if at < stop and at > self.unread_bytes:
                # The rest may wait for long, so the part that was read isn't kept with it if that is the longer one.
                # Copying a longer rest would take long for a burst in which every second request ends a read.
                data, at = data[at:], 0
            self._pieces = [data] if at < end else []
            self._at = at if at < end else 0

    def _long_answer(self) -> Called | None:
        """Take the first frame if it is a response that ends in the last piece: so its body is copied only once.

        None: nothing has changed. Raises: ProtocolError.
        """
        first, last, at = self._pieces[0], self._pieces[-1], self._at
        end = self._wanted_bytes - (self.unread_bytes - len(last))
        if len(self._pieces) == 1 or not 0 < end <= len(last) or len(first) - at < HEAD_BYTES:
            return None
        word = _HEAD(first, at)[1]
        body_at = at + HEAD_BYTES + (word & 0xFFFFFF)
        if body_at > len(first) or body_at - at - HEAD_BYTES > self._header_bytes_max:
            return None
        codec = codec_for(word >> 24)
        envelope = codec.decode_envelope(first[at + HEAD_BYTES : body_at])
        if not envelope.flag & ANSWER_FLAG:
            return None
        self._heard(envelope.version, envelope.language)
        body = b"".join([memoryview(first)[body_at:], *self._pieces[1:-1], memoryview(last)[:end]])
        self._pieces = [last[end:]] if end < len(last) else []
        self.unread_bytes, self._at, self._wanted_bytes = len(last) - end, 0, HEAD_BYTES
        return self._answered, AnswerFrame(codec, envelope, body)

    def _offer(self, hot: HotNativeRequests | HotJsonRequests, data: bytes, at: int, stop: int) -> int:
        """Let `Routes.runs` take the sends that begin from `at` on and before `stop`; return where the rest begins."""
        runs, offers = self._routes.runs, self._offers
        alike = None if runs is None or offers.calls_first else hot.alike(data, at)
        if runs is None or alike is None:
            return at
        taken_to = runs.take(hot.codec, data, at, stop, alike, self._source)
        offers.taken(at, taken_to, stop)
        return taken_to

    # -- everything that differs from the last request -----------------------------------------------------------

    def _slow_path(self, data: bytes, at: int, body_at: int, stop: int, codec_byte: int) -> Called:
        """Read one frame of any codec, request or response. Raises: ProtocolError if its header can't be read."""
        codec = codec_for(codec_byte)
        if body_at - at - HEAD_BYTES > self._header_bytes_max:
            words = f"a header of {body_at - at - HEAD_BYTES} bytes is over the limit of {self._header_bytes_max}"
            raise ProtocolError(words)
        envelope = codec.decode_envelope(data[at + HEAD_BYTES : body_at])
        self._heard(envelope.version, envelope.language)
        if envelope.flag & ANSWER_FLAG:
            return self._answered, AnswerFrame(codec, envelope, data[body_at:stop])
        self.codec = codec
        self._json.forget()
        watch = self._routes.watch
        if watch is not None and watch.is_judging:
            self.read_slowly()  # Each request needs its header.
            body = data[body_at:stop]
            return watch.judged(envelope, body, self._read_request(codec, envelope, body))
        if watch is not None and codec.number != NATIVE and _ACCESS_KEY in (envelope.fields or b""):
            watch.saw_key(self._source, envelope.fields or b"")
        is_native = codec.number == NATIVE
        if is_native and envelope.flag == 0 and envelope.remark is None:
            if envelope.code not in self._routes.known:
                self._routes.expect_more(envelope.code)
            self._native.remember(data, at)
            self._hot = self._native
        # After a one-way request, the next requests look like those before it.
        elif not (is_native and self._hot is self._native):
            self._hot = self._json if codec.number == JSON else None
        return self._read_request(codec, envelope, data[body_at:stop])

    def _read_request(self, codec: Codec, envelope: Envelope, body: bytes) -> Called:
        code, is_oneway = envelope.code, envelope.flag & ONEWAY_FLAG != 0
        handler, request = self._routes.handlers.get(code), None
        if handler is None:
            words = f" request type {code} not supported ({name_of_request(code)})"
            handler = self._routes.guarded(code, _refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, words))
        elif len(body) > (declaration := REQUESTS[code]).request.body_bytes_max:
            limit = declaration.request.body_bytes_max
            words = f"{declaration.name}: a body of {len(body)} bytes is over the limit of {limit} for this request"
            handler = self._routes.guarded(code, _refuses(_SYSTEM_ERROR, words))
        else:
            try:
                request = codec.decode_request(declaration, envelope, body)
            except ProtocolError as error:
                handler = self._routes.guarded(code, _refuses(_SYSTEM_ERROR, str(error)))
        return handler, self._make_call(request, envelope.opaque, is_oneway, codec, self._source)

    def _refuse_length(self, data: bytes, at: int, length: int, word: int) -> Called:
        """Return the refusal of a request that is too long; nothing after it is read. Raises: ProtocolError."""
        header_bytes = word & 0xFFFFFF
        if length <= _LENGTH_MAX:
            raise ProtocolError(f"a frame of {length} bytes with a header of {header_bytes} bytes")
        words = f"a frame of {length + 4} bytes is over the limit of {FRAME_BYTES_MAX}"
        header_at = at + HEAD_BYTES
        if header_bytes <= HEADER_BYTES_MAX and header_at + header_bytes <= len(data):
            codec = codec_for(word >> 24)
            envelope = codec.decode_envelope(data[header_at : header_at + header_bytes])
            if not envelope.flag & ANSWER_FLAG:
                is_oneway = envelope.flag & ONEWAY_FLAG != 0
                call = self._make_call(None, envelope.opaque, is_oneway, codec, self._source)
                self._ended_by = words
                return _refuses(ResponseCode.MESSAGE_ILLEGAL, words), call
        raise ProtocolError(words)

    # -- the peer ------------------------------------------------------------------------------------------------

    def _heard(self, version: int, language: int) -> None:
        if self.peer.version != version or self.peer.language != language:
            self.peer = Peer(self.peer.address, version, language)

    def _heard_json(self, version: int, language: int) -> None:
        self.codec = _JSON_CODEC
        self._heard(version, language)


def _refuses(code: int, words: str) -> Handler:
    """Return a handler that refuses."""
    return partial(_refuse, refusal(code, words))


def _refuse(answer: Answer, _call: Any) -> Answer:
    return answer


def _ignore(_call: Any) -> None:
    """Do nothing."""


# In place of a request that is already stored.
_TAKEN: Called = _ignore, None
_JSON_CODEC = codec_for(JSON)
