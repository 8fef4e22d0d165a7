"""Bytes in, calls out: the frames of one connection. Knows no socket and no clock, and handles nothing itself.

`receive` takes what a socket brought. `calls` returns one pair for each whole frame: who handles it, and the call that
it is to be handled with. What can't be understood is a call, too: its handler returns the refusal. So whoever drives
this has one loop, and may leave it after any call: the others it gives back, and `calls` returns them again.

Most frames look like the one before. Those a hot codec reads in one step each (`_fast_path`: `HotNativeRequests` or
`HotJsonRequests`); everything else, every error included, is read piece by piece (`_slow_path`). Both make the same
calls.

A frame whose bytes are no frame raises ProtocolError; then the connection has to be closed, since where the next one
begins isn't known any more.
"""

from collections.abc import Callable, Iterator
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
    Offer,
    Offers,
    SendRuns,
    codec_for,
)
from staticfire.protocol.codecs.hot_json import HotJsonRequests
from staticfire.protocol.codecs.hot_native import HotNativeRequests, HotTable, request_mark
from staticfire.protocol.codes import ResponseCode, name_of_request
from staticfire.protocol.command import REQUESTS, Answer, refusal
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX

Handler = Callable[[Any], Answer | None]
Guard = Callable[[int, Handler], Handler]
"""Of a request code and who handles it; returns who handles it in that one's place."""
FastPath = Callable[[bytes, int, int, list[Called], int], int]
"""Of bytes, and from where to where requests may begin; puts so many calls into the list (0: all) and returns where it
ended: perhaps at one that it can't read.
"""
HEAD_BYTES = 8
# Length, codec, header length.
_HEAD = Struct(">II").unpack_from
_LENGTH_MAX = FRAME_BYTES_MAX - 4
_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)


class Peer(msgspec.Struct, gc=False, frozen=True):
    """Who is on the other side, as far as its frames tell."""

    address: str
    version: int = 0
    language: int = 0


class AnswerFrame(NamedTuple):
    """An answer as it came: only who asked knows which fields it has."""

    codec: Codec
    envelope: Envelope
    body: bytes


def answers_in(data: bytes) -> Iterator[AnswerFrame]:
    """Yield the answers in whole frames that we wrote ourselves."""
    at = 0
    while at < len(data):
        length, word = _HEAD(data, at)
        codec, body_at = codec_for(word >> 24), at + HEAD_BYTES + (word & 0xFFFFFF)
        yield AnswerFrame(
            codec, codec.decode_envelope(data[at + HEAD_BYTES : body_at]), data[body_at : at + 4 + length]
        )
        at += 4 + length


class Routes:
    """Who handles which request code: shared by all readers of a server or client."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.hot: HotTable = {}
        """Those that came of requests whose body is bytes as they are, by how the code stands in a native header."""
        self.known: set[int] = set()
        """Codes that came and have a handler; never iterated."""
        self._runs: SendRuns | None = None
        self._guard: Guard | None = None
        self._unguarded: dict[int, Handler] = {}

    @property
    def runs(self) -> SendRuns | None:
        """Who takes plain sends all at once, before calls are made of what is left."""
        return self._runs

    def offer_sends(self, runs: SendRuns) -> None:
        """Offer sends as they come to somebody first."""
        self._runs = runs

    def add(self, code: int, handler: Handler) -> None:
        """Raises: ValueError when the code has a handler, or isn't declared."""
        if code in self.handlers:
            raise ValueError(f"{name_of_request(code)} has a handler already")
        if code not in REQUESTS:
            raise ValueError(f"{name_of_request(code)} is not declared")
        self.handlers[code] = handler

    def expect_more(self, code: int) -> None:
        """Have requests with that code read quickly from now on, if their kind can be: one has come.

        Not before: making a decoder takes time, and a start has 60 of them to spare.
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
        """Let every request come to who `guard` returns for it, from the next read on; None: to its handler again.

        Nothing is looked up for that on a request's way: the handlers themselves are others. Runs of sends, which have
        none, are requests of their own meanwhile.
        """
        if self._guard is None:
            self._unguarded = dict(self.handlers)
        self._guard = guard
        for code, handler in self._unguarded.items():
            self.handlers[code] = handler if guard is None else guard(code, handler)
            if code in self.known:
                self._read_quickly(code, self.handlers[code])
        if self._runs is not None:
            self._runs.pause(guard is not None)

    def take_over(self, others: "Routes") -> None:
        """Let others' handlers stand in place of these, in the tables that readers hold. Not under a guard."""
        self.handlers.update(others.handlers)
        for code in sorted(self.known):
            self._read_quickly(code, self.handlers[code])
        if self._runs is not None and others.runs is not None:
            self._runs.become(others.runs)
        self._runs = self._runs or others.runs

    def guarded(self, code: int, refusing: Handler) -> Handler:
        """Return who handles a request that is refused unread."""
        return refusing if self._guard is None else self._guard(code, refusing)


class FrameReader:
    """The frames of one connection, in the order in which they came."""

    def __init__(
        self,
        routes: Routes,
        make_call: MakeCall,
        source: Any,
        answered: Callable[[AnswerFrame], None],
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        """`source` goes into each call; `answered` handles answers to what was asked on this connection."""
        self._routes = routes
        self._make_call = make_call
        self._source = source
        self._answered = cast(Handler, answered)
        self._header_bytes_max = header_bytes_max
        self._pieces: list[bytes] = []
        self._at = 0
        # In the first piece: what comes before has been read.
        self._given_back: list[Called] = []
        self._wanted_bytes = HEAD_BYTES
        self._is_recognised = False
        self._ended_by = ""
        # Why nothing can be read any more.
        self._native = HotNativeRequests(routes.hot, routes.runs, make_call, source)
        self._json = HotJsonRequests(routes.handlers, routes.runs, make_call, source, self._heard_json)
        self._fast_path: FastPath = _nothing_is_alike
        self._offer: Offer | None = None
        self._offers = Offers()
        self.peer = Peer("?")
        self.codec: Codec | None = None
        """Of the peer's last request."""
        self.unread_bytes = 0
        """Of frames that no call was made of."""

    def only(self, data: bytes) -> Called | None:
        """Return the one call of bytes that are one frame; else None, and nothing has happened.

        Most reads are so unless much is under way. `receive` and `calls` do the same, and take longer.
        """
        end = len(data)
        if self.unread_bytes or end < HEAD_BYTES or not self._is_recognised:
            return None
        length, word = _HEAD(data)
        body_at = HEAD_BYTES + (word & 0xFFFFFF)
        if length != end - 4 or length > _LENGTH_MAX or body_at > end:
            return None
        if self._offer is not None:
            if self._offers.make(self._offer, data, 0, end):
                return _TAKEN
            self._offers.called(1)
        calls: list[Called] = []
        if self._fast_path(data, 0, end, calls, 1):
            return calls[0]
        try:
            return self._slow_path(data, 0, body_at, end, word >> 24)
        except ProtocolError:
            return None

    def receive(self, data: bytes) -> bool:
        """Take bytes in; tell whether there may be a whole frame now."""
        self._pieces.append(data)
        self.unread_bytes += len(data)
        return self.unread_bytes >= self._wanted_bytes

    def clear(self) -> None:
        """Forget what hasn't been read."""
        self._pieces.clear()
        self._given_back.clear()
        self._at, self.unread_bytes, self._wanted_bytes = 0, 0, HEAD_BYTES

    def give_back(self, calls: list[Called]) -> None:
        """Have the next `calls` return these: they aren't handled yet."""
        self._given_back = calls

    def calls(self, bytes_wanted: int) -> list[Called] | None:
        """Return handler and call of the next whole frames, until these have `bytes_wanted`; None if there is none.

        Frames that `Routes.runs` has taken have no call: there may be none at all. Raises: ProtocolError, when the next
        bytes are no frame.
        """
        if self._given_back:
            calls, self._given_back = self._given_back, []
            return calls
        calls, unread_bytes = [], self.unread_bytes
        try:
            self._read(calls, bytes_wanted)
        except ProtocolError:
            if self.unread_bytes == unread_bytes:
                raise  # Else what came before is first, and it is raised again.
        return calls if calls or self.unread_bytes < unread_bytes else None

    def _read(self, calls: list[Called], bytes_wanted: int) -> None:
        """Read frames from where the last ones ended. Raises: ProtocolError."""
        if self._ended_by:
            raise ProtocolError(self._ended_by)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        at, end, offers = self._at, len(data), self._offers
        stop = min(at + bytes_wanted, end)
        self._wanted_bytes = HEAD_BYTES
        try:
            if end and not self._is_recognised:
                recognise(data)
                self._is_recognised = True
            if self._offer is not None:
                at = offers.make(self._offer, data, at, stop)
            while True:
                at = self._fast_path(data, at, stop, calls, offers.calls_first)
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
            if at < stop:
                data, at = data[at:], 0  # It waits for more, perhaps for long: what was read needn't be kept with it.
            self._pieces = [data] if at < end else []
            self._at = at if at < end else 0

    # -- everything that isn't like the last request -------------------------------------------------------------

    def _slow_path(self, data: bytes, at: int, body_at: int, stop: int, codec_byte: int) -> Called:
        """Read one frame of any codec, request or answer. Raises: ProtocolError when its header can't be read."""
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
        is_native = codec.number == NATIVE
        if is_native and envelope.flag == 0 and envelope.remark is None:
            if envelope.code not in self._routes.known:
                self._routes.expect_more(envelope.code)
            self._native.remember(data, at)
            self._fast_path, self._offer = self._native.read, self._native.offer
        elif not (is_native and self._fast_path == self._native.read):  # The next are like those before a one-way one.
            is_json = codec.number == JSON
            self._fast_path = self._json.read if is_json else _nothing_is_alike
            self._offer = self._json.offer if is_json else None
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
        """Return the refusal of a request that is too long; nothing is read behind it. Raises: ProtocolError."""
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

    # -- who speaks ----------------------------------------------------------------------------------------------

    def _heard(self, version: int, language: int) -> None:
        if self.peer.version != version or self.peer.language != language:
            self.peer = Peer(self.peer.address, version, language)

    def _heard_json(self, version: int, language: int) -> None:
        self.codec = _JSON_CODEC
        self._heard(version, language)


def _nothing_is_alike(_data: bytes, at: int, _stop: int, _calls: list[Called], _calls_max: int) -> int:
    """Read no requests: none came so far, or one that no hot codec reads."""
    return at


def _refuses(code: int, words: str) -> Handler:
    """Return a handler that says no."""
    return partial(_refuse, refusal(code, words))


def _refuse(answer: Answer, _call: Any) -> Answer:
    return answer


def recognise(data: bytes) -> None:
    """Say what the first bytes of a connection are when they are another protocol's. Raises: ProtocolError.

    A frame's length is below 16 MiB, so its first byte is 0 (or 1); anything else isn't RocketMQ remoting.
    """
    if data[0] <= 1:
        return
    if data[:2] == b"\x16\x03":
        raise ProtocolError("this is TLS; staticfire speaks plain TCP: turn useTLS off in the client")
    if b"PRI * HTTP/2".startswith(data[:12]):
        raise ProtocolError("this is HTTP/2, so probably a 5.x gRPC client: its endpoint is another port, usually 8081")
    if data.split(b" ", 1)[0] in (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH"):
        raise ProtocolError("this is HTTP; this port speaks RocketMQ remoting, the control endpoint is another port")
    raise ProtocolError(f"these bytes are no frame: {data[:16].hex(' ')}")


def _ignore(_call: Any) -> None:
    """Do nothing."""


_TAKEN: Called = _ignore, None
# Of a request that is stored already.
_JSON_CODEC = codec_for(JSON)
