"""Hand-written code for the most frequent commands of codec 0.

Reading: a header of a send or a pull that begins with its code, as all clients write it, is decoded with its fields by
one call. Writing: the response to a send, and to a pull without its messages, is one formatted line. Invariant,
verified by tests: reading gives the same command, and writing the same bytes, as `json`. Everything that doesn't fit,
including every error, is left to `json`.

What it brings: a pull of 32 messages takes 11 % less time by the reading, 14 % by the writing; without a compiler, a
send takes a quarter less by each.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from staticfire.protocol.codecs.codec import Called, Codec, MakeCall, WriteAnswer
from staticfire.protocol.codes import LANGUAGES_BY_NAME, VERSION, LanguageCode, RequestCode
from staticfire.protocol.command import REQUESTS, Answer, Records, RocketmqRecords
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX
from staticfire.protocol.numbers import Int32
from staticfire.protocol.requests.pull import PullAnswer
from staticfire.protocol.requests.send import SendAnswer
from staticfire.protocol.rocketmq_record import rocketmq_records

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
# For texts that are repeated often: regions, remarks.
_TEXT = lru_cache(maxsize=64)(_encode)


# -- reading -----------------------------------------------------------------------------------------------------------


class HotHeader(msgspec.Struct, gc=False, kw_only=True):
    """A header with its fields already decoded."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | None = None
    remark: str | None = None
    extFields: Any  # noqa: N815 (RocketMQ's name)


Handlers = Mapping[int, Callable[[Any], Answer | None]]


class HotJsonRequests:
    """Reads those requests of one connection whose headers can be read in one step."""

    def __init__(
        self,
        codec: Codec,
        handlers: Handlers,
        make_call: MakeCall,
        source: Any,
        heard: Callable[[int, int], None],
    ) -> None:
        """`heard` is called with the peer's version and language if they differ from those of its last request here."""
        self.codec = codec
        self._handlers = handlers
        self._make_call = make_call
        self._source = source
        self._heard = heard
        self._version: int | None = None
        self._language: str | None = None

    def forget(self) -> None:
        """Call `heard` for the next request in any case."""
        self._version = None

    def alike(self, data: bytes, at: int) -> tuple[bytes, int] | None:
        """Return what the headers of the peer have in common, for `SendRuns`; None if no send begins at `at`."""
        language, version = self._language, self._version
        if language is None or version is None or data[at + 8 : at + 8 + _BEGIN_BYTES] not in _SENDS:
            return None
        return language.encode(), version

    def read(self, data: bytes, at: int, stop: int, calls: list[Called], calls_max: int) -> int:
        """Make calls from the requests that begin from `at` on and before `stop`, at most `calls_max` (0: all).

        Return where it stopped, perhaps at a request that must be read by the generic code, or an incomplete one. Hot
        path.
        """
        find, make_call, codec, source = self._handlers.get, self._make_call, self.codec, self._source
        end = len(data)
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
            calls.append((handler, make_call(request, header.opaque, False, codec, source)))
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


# The parts of the response to a send before its msgId, queueId, queueOffset, transactionId and opaque, and the end.
_SENT = (
    b'{"code":0,"extFields":{"msgId":"',
    b'","queueId":"',
    b'","queueOffset":"',
    b'","transactionId":"',
    b'","MSG_REGION":%b,"TRACE_ON":%b},"flag":1,"language":"PYTHON","opaque":',
    b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION,
)
_SENT_LINE = b"%b%%b%b%%d%b%%d%b%%b%b%%d%b" % _SENT


def sent_parts(region: str, trace_on: str, id_prefix: str) -> tuple[bytes, ...]:
    """Return the parts between which the compiled version writes numbers and ids: those of the response to a send.

    The last part is the begin of a response without fields, up to its opaque; it has the same end.
    """
    before_id, *between, before_opaque, end = _SENT
    before_opaque %= _encode(region), _encode(trace_on)
    plain = b'{"code":0,"flag":1,"language":"PYTHON","opaque":'
    return before_id + id_prefix.encode(), *between, before_opaque, end, plain


def _write_sent(out: list[bytes], answer: Any, opaque: int, _store_host: bytes) -> int:
    """Write the response to a send; return its size, or 0 if it must be written by the generic code."""
    texts = answer.msg_id, answer.transaction_id, answer.region, answer.trace_on
    is_plain = answer.remark is answer.recall_handle is answer.batch_uniq_id is None
    if answer.code or not is_plain or None in texts:
        return 0
    try:
        header = _SENT_LINE % (
            _encode(answer.msg_id)[1:-1], answer.queue_id, answer.queue_offset, _encode(answer.transaction_id)[1:-1],
            _TEXT(answer.region), _TEXT(answer.trace_on), opaque,
        )  # fmt: skip
    except (TypeError, UnicodeEncodeError):
        return 0
    out.append(_pack_head(4 + len(header), len(header)) + header)
    return 8 + len(header)


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


HOT_ANSWERS: dict[type[Answer], WriteAnswer] = {PullAnswer: _write_pulled, SendAnswer: _write_sent}
