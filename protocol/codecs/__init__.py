"""How a frame's header and body are read and written: one module per codec byte.

    u32 length | u8 codec, u24 header length | header | body        length counts everything behind itself

- `native.py`, 2: msgpack; staticfire's own programs
- `json.py`, 0: JSON headers, RocketMQ's JSON bodies and binary records; real remoting clients
- `rocketmq.py`, 1: the same in a binary header; real remoting clients with ROCKETMQ_SERIALIZE_TYPE=ROCKETMQ

All are generic over the declarations in `protocol.requests`. `hot_native.py` and `hot_json.py` are the same, with
the few frequent commands written by hand. Whatever the bytes, a codec raises `ProtocolError` or nothing.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeAlias

import msgspec

from staticfire.protocol.command import Answer, Declaration, Request, Shape
from staticfire.protocol.errors import ProtocolError


class Envelope(msgspec.Struct, gc=False):
    """What every header has. `fields` is the still encoded rest; `flag` bit 0 marks an answer, bit 1 one-way."""

    code: int
    opaque: int
    flag: int
    version: int
    language: int
    remark: str | None
    fields: bytes | None


SentWriter: TypeAlias = Callable[[list[bytes], int, str, int, int, int, str], None]
"""Puts a `SendAnswer` behind what is in a list: the list, opaque, what the broker's offset message ids begin with, log
position, queue_id, queue_offset, transaction_id.

The command itself isn't made, nor the message id by itself: there is one for each message.
"""


Called: TypeAlias = tuple[Callable[[Any], Answer | None], Any]
"""Who handles a request, and the call that it is handled with."""


MakeCall: TypeAlias = Callable[[Any, int, bool, "Codec", Any], Any]
"""Of request, opaque, whether it is one-way, codec, and whose reader this is."""


class SendRuns(Protocol):
    """Takes plain sends that stand side by side, all at once and as bytes, where somebody can."""

    def take_native(self, data: bytes, at: int, stop: int, tail: bytes, source: Any) -> int:
        """Store the sends that begin there and before `stop`; return where the first begins that isn't plain.

        `tail`: what stands between opaque and fields of the last request. `source`: whose reader this is.
        """

    def take_json(self, data: bytes, at: int, stop: int, language: str, version: int, source: Any) -> int:
        """The same over JSON, with what the peer's last header said of it."""

    def pause(self, is_paused: bool) -> None:
        """Take nothing until told otherwise."""

    def become(self, other: "SendRuns") -> None:
        """Store from now on where another one does, which is used by nobody else."""


Offer: TypeAlias = Callable[[bytes, int, int], int]
"""Of bytes, and from where to where sends may begin; has them taken and returns where the rest begins, -1: no send."""

PAUSE_MAX = 63
# Of requests between two offers of sends, of which none was taken.


class Offers:
    """When the sends of a connection are offered to who takes them in runs: ever less often while none is taken."""

    __slots__ = ("_pause", "calls_first")

    def __init__(self) -> None:
        self.calls_first = 0
        """Of so many requests calls are made before there is another offer; 0: all."""
        self._pause = 0

    def make(self, offer: Offer, data: bytes, at: int, stop: int) -> int:
        """Offer what begins there and before `stop`; return where the rest begins."""
        if self.calls_first:
            return at
        taken_to = offer(data, at, stop)
        if taken_to > at:
            self._pause, self.calls_first = 0, int(taken_to < stop)  # Behind the one that isn't plain others may be.
        elif taken_to == at:
            self._pause = self.calls_first = min(2 * self._pause + 1, PAUSE_MAX)
        return max(taken_to, at)

    def are_due(self, calls: int) -> bool:
        """Whether it is time for another one, after so many calls since the last."""
        return 0 < self.calls_first <= calls

    def called(self, calls: int) -> None:
        """Note that so many calls were made; none: there was no whole request."""
        if calls:
            self.calls_first = max(self.calls_first - calls, 0)
        else:
            self.calls_first = self._pause = 0


class Codec(Protocol):
    """Bytes to commands and back, for one codec byte."""

    number: int

    def decode_envelope(self, header: bytes) -> Envelope:
        """Read what every header has. Raises: ProtocolError."""

    def decode_request(self, declaration: Declaration, envelope: Envelope, body: bytes) -> Request:
        """Read a request's fields and body. Raises: ProtocolError, which names the field."""

    def decode_answer(self, shape: Shape, envelope: Envelope, body: bytes) -> Answer:
        """Read an answer; a plain `Answer` where it carries no header fields. Raises: ProtocolError."""

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        """Return the whole frame. Raises: ProtocolError when it is larger than a frame may be."""

    def encode_answer(self, answer: Answer, opaque: int, store_host: bytes) -> bytes:
        """Return the whole frame. `store_host` (8 or 20 bytes) goes into records that carry one.

        Raises: ProtocolError when it is larger than a frame may be.
        """

    def write_answer(self, out: list[bytes], answer: Answer, opaque: int, store_host: bytes) -> int:
        """Put the same frame behind what is in `out`, in pieces; return its bytes.

        Raises: ProtocolError, and `out` is as before.
        """

    def sent_writer(self, region: str, trace_on: str) -> "SentWriter":
        """Return what writes the answers to stored messages, for a broker that says these two in each of them."""


ANSWER_FLAG = 1
ONEWAY_FLAG = 2
NATIVE = 2
JSON = 0
ROCKETMQ = 1


def codec_for(codec_byte: int) -> Codec:
    """Return the codec of a frame. Raises: ProtocolError when there is none."""
    codec = _codecs().get(codec_byte)
    if codec is None:
        raise ProtocolError(f"codec {codec_byte} is unknown; known are 0 (JSON), 1 (ROCKETMQ) and 2 (msgpack)")
    return codec


@cache
def _codecs() -> dict[int, Codec]:
    from staticfire.protocol.codecs import hot_json, hot_native, rocketmq

    return {hot_json.number: hot_json, rocketmq.number: rocketmq, hot_native.number: hot_native}
