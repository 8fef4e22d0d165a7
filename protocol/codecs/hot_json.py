"""Codec 0 as programs use it: `json` for most commands, hand-written code for the few frequent ones.

Reading: a header of a send or a pull that begins with its code, as all clients write it, is decoded with its fields by
one call. Writing: the response to a send is one formatted line. Invariant, verified by tests: reading gives the same
command, and writing the same bytes, as the generic code in `json`. Everything that doesn't fit, including every error,
is left to `json`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from staticfire.protocol.codecs import Called, MakeCall, SendRunsInUse, SentWriter, json
from staticfire.protocol.codecs.json import decode_answer, decode_envelope, decode_request, encode_request, number
from staticfire.protocol.codes import LANGUAGES_BY_NAME, VERSION, LanguageCode, RequestCode
from staticfire.protocol.command import REQUESTS, Answer, Records, RocketmqRecords
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from staticfire.protocol.requests.pull import PullAnswer
from staticfire.protocol.rocketmq_record import rocketmq_records

__all__ = ["decode_answer", "decode_envelope", "decode_request", "encode_answer", "encode_request", "number"]
__all__ += ["sent_writer", "write_answer"]

_HOT_CODES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
)
_BEGIN_BYTES = 12
# Sends, and ends of transactions.
_SENDS = frozenset((b'{"code":310,', b'{"code":10,"', b'{"code":37,"'))

_encode = msgspec.json.Encoder().encode
_pack_head = Struct(">II").pack
_unpack_head = Struct(">II").unpack_from
_LENGTH_MAX = FRAME_BYTES_MAX - 4
_OTHER = int(LanguageCode.OTHER)
_CODEC = sys.modules[__name__]
# For texts that are repeated often: regions, remarks.
_TEXT = lru_cache(maxsize=64)(_encode)


# -- reading -----------------------------------------------------------------------------------------------------------


class HotHeader(msgspec.Struct, gc=False, kw_only=True):
    """A header with its fields already decoded."""

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | None = None
    remark: str | None = None
    extFields: Any  # noqa: N815 (RocketMQ's name)


Handlers = Mapping[int, Callable[[Any], Answer | None]]


class HotJsonRequests:
    """Reads those requests of one connection whose headers can be read in one step."""

    def __init__(
        self,
        handlers: Handlers,
        in_use: SendRunsInUse,
        make_call: MakeCall,
        source: Any,
        heard: Callable[[int, int], None],
    ) -> None:
        """`heard` is called with the peer's version and language if they differ from those of its last request here.

        `in_use.runs` is offered the sends before calls are made from them.
        """
        self._handlers = handlers
        self._in_use = in_use
        self._make_call = make_call
        self._source = source
        self._heard = heard
        self._version: int | None = None
        self._language: str | None = None

    def forget(self) -> None:
        """Call `heard` for the next request in any case."""
        self._version = None

    def offer(self, data: bytes, at: int, stop: int) -> int:
        """Offer the sends between `at` and `stop`; return where the rest begins, or -1 if there is no send."""
        runs, language, version = self._in_use.runs, self._language, self._version
        if runs is None or language is None or version is None or data[at + 8 : at + 8 + _BEGIN_BYTES] not in _SENDS:
            return -1
        return runs.take_json(data, at, stop, language, version, self._source)

    def read(self, data: bytes, at: int, stop: int, calls: list[Called], calls_max: int) -> int:
        """Make calls from the requests that begin from `at` on and before `stop`, at most `calls_max` (0: all).

        Return where it stopped, perhaps at a request that must be read by the generic code, or an incomplete one. Hot
        path.
        """
        find, make_call, source, end = self._handlers.get, self._make_call, self._source, len(data)
        stop = min(stop, end - 7)
        while at < stop:
            length, header_bytes = _unpack_head(data, at)
            body_at = at + 8 + header_bytes
            frame_end = at + 4 + length
            # A longer header has another codec, or is refused.
            if header_bytes > HEADER_BYTES_MAX or not body_at <= frame_end <= end or length > _LENGTH_MAX:
                break
            header = read_header(data, at + 8, body_at)
            if header is None or header.flag or header.remark:
                break
            handler = find(header.code)
            if handler is None:
                break
            if header.version != self._version or header.language != self._language:
                self._version, self._language = header.version, header.language
                self._heard(header.version, LANGUAGES_BY_NAME.get(header.language or "", _OTHER))
            request = header.extFields
            request.body = data[body_at:frame_end]
            at = frame_end
            calls.append((handler, make_call(request, header.opaque, False, _CODEC, source)))
            calls_max -= 1
            if not calls_max:
                break
        return at


def read_header(data: bytes, at: int, end: int) -> HotHeader | None:
    """Return the header in data[at:end]; None if it must be read by the generic code."""
    found = _DECODERS.get(data[at : at + _BEGIN_BYTES])
    if found is None:
        if _DECODERS:
            return None
        _DECODERS.update(_decoders())
        return read_header(data, at, end)
    code, decode = found
    try:
        header = decode(data[at:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # If "code" is repeated later in the header, the last one counts.
    return header if header.code == code else None


_DECODERS: dict[bytes, tuple[int, Callable[[bytes], HotHeader]]] = {}


def _decoders() -> dict[bytes, tuple[int, Callable[[bytes], HotHeader]]]:
    """Return codes and decoders by the first bytes of a header. Made at the first read: all commands are declared."""
    decoders: dict[bytes, tuple[int, Callable[[bytes], HotHeader]]] = {}
    for code in _HOT_CODES:
        fields = REQUESTS[code].request.foreign_type
        header = msgspec.defstruct(f"HotHeader{int(code)}", [("extFields", fields)], bases=(HotHeader,), gc=False)
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(header, strict=False)
        decoders[(b'{"code":%d,"' % code)[:_BEGIN_BYTES]] = int(code), decoder.decode
    return decoders


# -- writing -----------------------------------------------------------------------------------------------------------


def encode_answer(answer: Answer, opaque: int, store_host: bytes = b"") -> bytes:
    """Return the whole frame. Raises: ProtocolError if it exceeds the limit of a frame."""
    out: list[bytes] = []
    write_answer(out, answer, opaque, store_host)
    return b"".join(out)


def write_answer(out: list[bytes], answer: Answer, opaque: int, store_host: bytes) -> int:
    """Append the frame to `out`, in one or more pieces; return its size.

    Raises: ProtocolError; `out` is unchanged then.
    """
    write = _WRITERS.get(type(answer))
    written = write(out, answer, opaque, store_host) if write is not None else 0
    if not written:
        frame = json.encode_answer(answer, opaque, store_host)
        out.append(frame)
        written = len(frame)
    return written


def sent_writer(region: str, trace_on: str) -> SentWriter:
    """Return a function that writes the responses to sends."""
    before_id, before_queue, before_offset, before_unique_id, before_opaque, end = (
        part.replace(b"%", b"%%") for part in sent_parts(region, trace_on, "")[:6]
    )
    # fmt: off
    header_of = (
        before_id + b"%b%016X" + before_queue + b"%d" + before_offset + b"%d" + before_unique_id[:-1] + b"%b"
        # The encoded id includes its quotes.
        + before_opaque[1:] + b"%d" + end
    ).__mod__
    # fmt: on

    def write(
        out: list[bytes],
        opaque: int,
        id_prefix: str,
        log_position: int,
        queue_id: int,
        queue_offset: int,
        unique_id: str,
    ) -> None:
        # fmt: off
        header = header_of((
            id_prefix.encode(), log_position, queue_id, queue_offset, _encode(unique_id), opaque,
        ))
        # fmt: on
        size = len(header)
        out.append(_pack_head(4 + size, size) + header)

    return write


def sent_parts(region: str, trace_on: str, id_prefix: str) -> tuple[bytes, ...]:
    """Return the parts of the response to a send: those before each of its five numbers and ids, and the end.

    The last part is the begin of a response without fields, up to its opaque; it has the same end.
    """
    return (
        b'{"code":0,"extFields":{"msgId":"' + id_prefix.encode(),
        b'","queueId":"',
        b'","queueOffset":"',
        b'","transactionId":"',
        b'","MSG_REGION":%b,"TRACE_ON":%b},"flag":1,"language":"PYTHON","opaque":'
        % (_encode(region), _encode(trace_on)),
        b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION,
        b'{"code":0,"flag":1,"language":"PYTHON","opaque":',
    )


_PULLED = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d",'
    b'"topicSysFlag":"%d","groupSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"remark":%b,'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(VERSION).encode() + b"}"
)


def _write_pulled(out: list[bytes], answer: Any, opaque: int, store_host: bytes) -> int:
    """Write the response to a pull; return its size, or 0 if it must be written by the generic code."""
    remark, records = answer.remark, answer.body
    if remark is None or answer.offset_delta is not None or answer.forbidden_type is not None:
        return 0
    try:
        header = _PULLED % (
            answer.code, answer.suggest_which_broker_id, answer.next_begin_offset, answer.min_offset, answer.max_offset,
            answer.topic_sys_flag, answer.group_sys_flag, opaque, _TEXT(remark),
        )  # fmt: skip
    except (TypeError, UnicodeEncodeError):
        return 0
    if isinstance(records, Records):
        frame = None if twin is None else twin.pulled_frame(records.slices, store_host, header, FRAME_BYTES_MAX)
        if frame is not None:
            out.append(frame)
            return len(frame)
        written = rocketmq_records(records.slices, store_host)
    elif records is None or isinstance(records, RocketmqRecords):
        written = [] if records is None else records.records
    else:
        return 0
    body_bytes = sum(map(len, written))
    if 8 + len(header) + body_bytes > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {8 + len(header) + body_bytes} bytes is over the limit of {FRAME_BYTES_MAX}")
    out.append(_pack_head(4 + len(header) + body_bytes, len(header)) + header)
    out.extend(written)
    return 8 + len(header) + body_bytes


_WRITERS: dict[type[Answer], Callable[[list[bytes], Any, int, bytes], int]] = {PullAnswer: _write_pulled}
