"""What a codec is, and what becomes of the requests that hot codecs read: calls, or runs of sends taken at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec

from staticfire.protocol.command import Answer, Declaration, Request, Shape

ANSWER_FLAG = 1
ONEWAY_FLAG = 2
NATIVE = 2
JSON = 0
ROCKETMQ = 1
_LENGTH = Struct(">I")


class Envelope(msgspec.Struct, gc=False):
    """The common part of all headers. `fields` is the encoded rest; `flag` bit 0 marks a response, bit 1 one-way."""

    code: int
    opaque: int
    flag: int
    version: int
    language: int
    remark: str | None
    fields: bytes | None


WriteAnswer: TypeAlias = Callable[[list[bytes], Any, int, bytes], int]
"""Appends the frame of a response, like `Codec.write_answer`; returns 0, and appends nothing, if it can't write it."""


class Codec(ABC):
    """Converts between bytes and commands, for one codec byte."""

    number: ClassVar[int]

    def __init__(self, hot_answers: Mapping[type[Answer], WriteAnswer] | None = None) -> None:
        """`hot_answers`: hand-written code for frequent responses. Peers read the same from its frames."""
        self._hot_answers = hot_answers or {}

    @abstractmethod
    def decode_envelope(self, header: bytes) -> Envelope:
        """Read the common part of a header. Raises: ProtocolError."""

    @abstractmethod
    def decode_request(self, declaration: Declaration, envelope: Envelope, body: bytes) -> Request:
        """Read a request's fields and body. Raises: ProtocolError, which names the field."""

    @abstractmethod
    def decode_answer(self, shape: Shape, envelope: Envelope, body: bytes) -> Answer:
        """Read a response; a plain `Answer` if it has no header fields. Raises: ProtocolError."""

    @abstractmethod
    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        """Return the whole frame. Raises: ProtocolError if it exceeds the limit of a frame."""

    @abstractmethod
    def encode_answer(self, answer: Answer, opaque: int, store_host: bytes = b"") -> bytes:
        """Return the whole frame. `store_host` (8 or 20 bytes) is added to records that contain one.

        Raises: ProtocolError if it exceeds the limit of a frame.
        """

    def encode_head(self, answer: Answer, opaque: int, body_bytes: int) -> bytes:
        """Return the frame of a response without a body, up to the body of that many bytes that follows it."""
        head = self.encode_answer(answer, opaque)
        return _LENGTH.pack(len(head) - _LENGTH.size + body_bytes) + head[_LENGTH.size :]

    def write_answer(self, out: list[bytes], answer: Answer, opaque: int, store_host: bytes) -> int:
        """Append the frame to `out`, in one or more pieces; return its size.

        Raises: ProtocolError; `out` is unchanged then.
        """
        write = self._hot_answers.get(type(answer))
        if write is not None:
            written = write(out, answer, opaque, store_host)
            if written:
                return written
        frame = self.encode_answer(answer, opaque, store_host)
        out.append(frame)
        return len(frame)


Called: TypeAlias = tuple[Callable[[Any], Answer | None], Any]
"""The handler of a request, and the call to pass to it."""


MakeCall: TypeAlias = Callable[[Any, int, bool, Codec, Any], Any]
"""Makes a call from: request, opaque, whether it is one-way, codec, and the source of the reader."""


class RequestWatch(Protocol):
    """Sees requests with their headers, before they are handled."""

    @property
    def is_judging(self) -> bool:
        """Whether each request must be judged."""

    def judged(self, envelope: Envelope, body: bytes, called: Called) -> Called:
        """Return what replaces a handler and its call."""

    def saw_key(self, source: Any, fields: bytes) -> None:
        """Note a request with an access key in its header fields. It isn't like the last one of its connection."""


class SendRuns(Protocol):
    """Takes adjacent plain sends all at once, as bytes, if possible."""

    def take(self, codec: Codec, data: bytes, at: int, stop: int, alike: tuple[Any, ...], source: Any) -> int:
        """Store the sends that begin from `at` on and before `stop`, up to one that isn't plain; return its position.

        `alike`: what the headers of a peer have in common. With the native codec these are the bytes between opaque and
        fields, with JSON the language, as bytes, and the version. `source`: the source of the reader.
        """


# The maximum number of requests between two offers, if none of the offers is taken.
PAUSE_MAX = 63


class Offers:
    """Decides when sends of a connection are offered to be taken in runs: less and less often while none is taken."""

    __slots__ = ("_pause", "calls_first")

    def __init__(self) -> None:
        self.calls_first = 0
        """For so many requests, calls are made before there is another offer; 0: for all."""
        self._pause = 0

    def taken(self, at: int, taken_to: int, stop: int) -> None:
        """Record the result of an offer: of the sends from `at` to `stop`, those before `taken_to` were taken."""
        if taken_to > at:
            # There may be more plain sends after the one that isn't.
            self._pause, self.calls_first = 0, int(taken_to < stop)
        else:
            self._pause = self.calls_first = min(2 * self._pause + 1, PAUSE_MAX)

    def are_due(self, calls: int) -> bool:
        """Return whether it is time for another offer, after so many calls since the last one."""
        return 0 < self.calls_first <= calls

    def called(self, calls: int) -> None:
        """Record that so many calls were made; 0: there was no complete request."""
        if calls:
            self.calls_first = max(self.calls_first - calls, 0)
        else:
            self.calls_first = self._pause = 0
