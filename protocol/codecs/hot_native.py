"""Hand-written code for the most frequent commands of codec 2.

Reading: if a request looks like the one before, one `struct` call reads frame and envelope (`HotNativeRequests`).

Writing: the result can be decoded like that of `native`, but its numbers have fixed widths, so that one `struct` call
makes the response to a send, and the compiled version writes numbers into a template of it (`sent_forms`):

    0    u32 length | 02, u24 header length | 97 ce code 0 ce
    15   u32 opaque                                                    in the frame, as in native.py
    19   flag 1 | cd u16 version | language | c0 no remark | 98 d9 20  an array of 8, a text of 32 bytes
    28   msgId, 32 characters
    60   d2 i32 queueId | d3 i64 queueOffset | d9 20
    76   transactionId, 32 bytes
    108  region, traceOn, c0, c0

Invariant, verified by tests: a response decodes to the same command as the generic one. Everything that doesn't fit is
left to `native`.

What it brings: a pull of 32 messages takes 10 % less time by the reading, 8 % by the writing; without a compiler, a
send takes a third less by the reading, a fifth by the writing.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from staticfire.protocol.codecs.codec import ANSWER_FLAG, Called, Codec, MakeCall, WriteAnswer
from staticfire.protocol.codecs.native import (
    ARRAY_OF_7,
    CODEC_WORD,
    ENVELOPE_BYTES,
    ENVELOPE_HEADER_BYTES,
    NIL,
    PYTHON,
    U16,
    U32,
    NativeCodec,
)
from staticfire.protocol.codes import VERSION, RequestCode
from staticfire.protocol.command import Answer, Records
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.requests.pull import PullAnswer
from staticfire.protocol.requests.send import SendAnswer, SendManyAnswer

_encode = msgspec.msgpack.Encoder().encode
# The length of an offset id and of a unique id, both with IPv4. Nearly every response to a send has these two.
_TEXT_BYTES = 32
_pack_sent = Struct(">IIBBIBI9s32sBiBq2s32s").pack
_SENT_HEADER_BYTES = 100
_MIDDLE = Struct(">BBHBB").pack(ANSWER_FLAG, U16, VERSION, PYTHON, NIL)
_AFTER_OPAQUE = _MIDDLE + b"\x98\xd9\x20"
_pack_pull = Struct(">IIBBIBI").pack
_pack_records = Struct(">BI").pack
# From the array's mark to the remark, which the response to a pull has.
_PULL_HEADER_BYTES = 11 + len(_MIDDLE) - 1


# -- reading -----------------------------------------------------------------------------------------------------------

HotTable = dict[bytes, tuple[Callable[[bytes], Any], Callable[[Any], Answer | None]]]
"""By a request's mark: the decoder of its header fields, and its handler."""

# Everything before the header's fields, see native.py: length, codec and header length, seven bytes with the code,
# opaque, and the six bytes from the flag to the remark.
_start = Struct(">II7sI6s").unpack_from
_pack_mark = Struct(">BBIB").pack
# Codec and header length of a header whose fields are empty.
_WORD_WITHOUT_FIELDS = CODEC_WORD | ENVELOPE_HEADER_BYTES
_TAIL_AT = 19
_READ_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


def request_mark(code: int) -> bytes:
    """Return the bytes of a request's code in its header, with the marks around it."""
    return _pack_mark(ARRAY_OF_7, U32, code, U32)


_TAKEN_IN_RUNS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_MANY,
    RequestCode.END_TRANSACTION,
)
_SENDS = frozenset(map(request_mark, _TAKEN_IN_RUNS))


class HotNativeRequests:
    """Reads requests that look like the last one of a connection, in one step."""

    def __init__(self, codec: Codec, table: HotTable, make_call: MakeCall, source: Any) -> None:
        self.codec = codec
        self._table = table
        self._make_call = make_call
        self._source = source
        self._tail = b""

    def remember(self, data: bytes, at: int) -> None:
        """Store the request that begins at `at` as the last one.

        The next requests have the same bytes between opaque and fields (no flag, version and language of the peer, no
        remark), so these needn't be decoded.
        """
        self._tail = data[at + _TAIL_AT : at + ENVELOPE_BYTES]

    def alike(self, data: bytes, at: int) -> tuple[bytes] | None:
        """Return what the headers of the peer have in common, for `SendRuns`; None if no send begins at `at`."""
        return (self._tail,) if data[at + 8 : at + 15] in _SENDS else None

    def read(self, data: bytes, at: int, stop: int, calls: list[Called], calls_max: int) -> int:
        """Make calls from the requests that begin from `at` on and before `stop`, at most `calls_max` (0: all).

        Return where it stopped, perhaps at a request that differs from the last one, is incomplete, or is invalid. Hot
        path.
        """
        find, make_call, codec, source = self._table.get, self._make_call, self.codec, self._source
        last_tail, end = self._tail, len(data)
        stop = min(stop, end - ENVELOPE_BYTES + 1)
        while at < stop:
            length, word, mark, opaque, tail = _start(data, at)
            found = find(mark)
            if found is None or tail != last_tail:
                break
            fields_at = at + ENVELOPE_BYTES
            body_at = fields_at + word - _WORD_WITHOUT_FIELDS
            frame_end = at + 4 + length
            if not fields_at <= body_at <= frame_end <= end:
                break
            decode, handler = found
            try:
                request = decode(data[fields_at:body_at])
            except _READ_ERRORS:
                break
            request.body = data[body_at:frame_end]
            at = frame_end
            calls.append((handler, make_call(request, opaque, False, codec, source)))
            calls_max -= 1
            if not calls_max:
                break
        return at


# -- writing -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _sent_end(region: str, trace_on: str) -> bytes:
    return _encode(region) + _encode(trace_on) + b"\xc0\xc0"


def _write_sent(out: list[bytes], answer: Any, opaque: int, _store_host: bytes) -> int:
    """Write the response to a send; return its size, or 0 if it must be written by the generic code."""
    is_plain = answer.remark is answer.recall_handle is answer.batch_uniq_id is None
    needed = answer.msg_id, answer.queue_id, answer.queue_offset, answer.transaction_id
    if answer.code or not is_plain or None in needed:
        return 0
    message_id, unique_id = answer.msg_id.encode(), answer.transaction_id.encode()
    if len(message_id) != _TEXT_BYTES or len(unique_id) != _TEXT_BYTES:
        return 0
    end = _sent_end(answer.region, answer.trace_on)
    header_bytes = _SENT_HEADER_BYTES + len(end)
    fields = _pack_sent(
        4 + header_bytes, CODEC_WORD | header_bytes, ARRAY_OF_7, U32, 0, U32, opaque, _AFTER_OPAQUE, message_id, 0xD2,
        answer.queue_id, 0xD3, answer.queue_offset, b"\xd9\x20", unique_id,
    )  # fmt: skip
    out.append(fields + end)
    return 8 + header_bytes


def sent_forms(region: str, trace_on: str, id_prefix: str) -> tuple[bytes, bytes, bytes] | None:
    """Return the frames into which the compiled version writes numbers: the response to a send, one to a SEND_MANY
    without its results, and one to the end of a transaction.

    None if ids with that prefix have no fixed place in it.
    """
    forms: list[bytes] = []
    sent = SendAnswer(id_prefix + "0" * 16, 0, 0, "0" * _TEXT_BYTES, region, trace_on)
    if not _write_sent(forms, sent, 0, b""):
        return None
    encode = NativeCodec().encode_answer
    return forms[0], encode(SendManyAnswer(), 0), encode(Answer(), 0)


def _write_pulled(out: list[bytes], answer: Any, opaque: int, _store_host: bytes) -> int:
    """Write the response to a pull, with the slices of the log unchanged; return its size, 0 for the generic code."""
    remark, records = answer.remark, answer.body
    if remark is None or not (records is None or isinstance(records, Records)):
        return 0
    rest = _encode(remark) + _encode(
        (
            answer.suggest_which_broker_id, answer.next_begin_offset, answer.min_offset, answer.max_offset,
            answer.offset_delta, answer.topic_sys_flag, answer.group_sys_flag, answer.forbidden_type,
        )
    )  # fmt: skip
    header_bytes = _PULL_HEADER_BYTES + len(rest)
    body_bytes = 0 if records is None else 5 + sum(map(len, records.slices))
    if 8 + header_bytes + body_bytes > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {8 + header_bytes + body_bytes} bytes is over the limit of {FRAME_BYTES_MAX}")
    head = _pack_pull(
        4 + header_bytes + body_bytes, CODEC_WORD | header_bytes, ARRAY_OF_7, U32, answer.code, U32, opaque
    )
    out.append(head + _MIDDLE[:-1] + rest)
    if records is not None:
        out.append(_pack_records(0xDD, records.count))
        out.extend(records.slices)
    return 8 + header_bytes + body_bytes


HOT_ANSWERS: dict[type[Answer], WriteAnswer] = {PullAnswer: _write_pulled, SendAnswer: _write_sent}
assert 11 + len(_MIDDLE) == ENVELOPE_HEADER_BYTES
