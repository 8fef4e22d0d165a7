"""Codec 2: msgpack headers and bodies. staticfire's own programs use it.

The header is one msgpack array of seven whose numbers have fixed widths, so that one `struct` call reads frame and
envelope together:

    offset  bytes         what
    0       u32           frame length, without these four bytes
    4       02, u24       codec, header length
    8       97            array of 7
    9       ce u32        code
    14      ce u32        opaque: the response has its request's
    19      fixint        flag: 1 response, 2 one-way
    20      cd u16        version
    23      fixint        language
    24      c0 | str      remark
    25...   c0 | array    header fields in the order of the declaration; the last ones may be left out

then the body: raw bytes, a msgpack value, or an array of stored records. A frame has the same content as RocketMQ's
JSON, in a third of the bytes.
"""

import re
from struct import Struct, error as StructError
from typing import Any

import msgspec

from staticfire.protocol.codecs.codec import ANSWER_FLAG, NATIVE, ONEWAY_FLAG, Codec, Envelope
from staticfire.protocol.codes import VERSION, LanguageCode
from staticfire.protocol.command import (
    PLAIN_ANSWER,
    Answer,
    Declaration,
    RecordBatch,
    Records,
    Request,
    Shape,
    StandardJson,
    answer_shape,
    declaration_of,
)
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.record import decode_records, join_records

# From the frame's first byte to the remark's marker at 24. The hot dispatcher unpacks it in place.
ENVELOPE = Struct(">IIBBIBIBBHBB")
ENVELOPE_BYTES = ENVELOPE.size
ENVELOPE_HEADER_BYTES = ENVELOPE_BYTES - 8
CODEC_WORD = NATIVE << 24
ARRAY_OF_7, U32, U16, NIL = 0x97, 0xCE, 0xCD, 0xC0
PYTHON = int(LanguageCode.PYTHON)

_HEADER = Struct(">BBIBIBBHB")
_encode = msgspec.msgpack.Encoder().encode
_decode_rest = msgspec.msgpack.Decoder(tuple[int, int, int, int, int, str | None, msgspec.Raw]).decode
_SHORT_ARRAY = r"of at least length \d+, got (\d+)"
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


class NativeCodec(Codec):
    """msgpack headers and bodies."""

    number = NATIVE

    def decode_envelope(self, header: bytes) -> Envelope:
        try:
            marks = _HEADER.unpack_from(header)
            if (marks[0], marks[1], marks[3], marks[6]) != (ARRAY_OF_7, U32, U32, U16):
                raise ProtocolError("header isn't a msgpack array of seven with fixed-width numbers")
            code, opaque, flag, version, language, remark, fields = _decode_rest(header)
        except (*_DECODE_ERRORS, StructError) as error:
            raise ProtocolError(f"msgpack header of {len(header)} bytes: {error}") from None
        return Envelope(
            code, opaque, flag, version, language, remark, None if bytes(fields) == b"\xc0" else bytes(fields)
        )

    def decode_request(self, declaration: Declaration, envelope: Envelope, body: bytes) -> Request:
        shape = declaration.request
        try:
            request: Request = shape.native.decode(envelope.fields or b"\x90")
            request.remark = envelope.remark
            request.body = _read_body(shape, body)
        except _DECODE_ERRORS as error:
            raise ProtocolError(f"{declaration.name}: {_named(error, shape)}") from None
        return request

    def decode_answer(self, shape: Shape, envelope: Envelope, body: bytes) -> Answer:
        if shape.fields and envelope.fields is None:
            shape = PLAIN_ANSWER
        try:
            answer: Answer = shape.native.decode(envelope.fields or b"\x90")
            answer.body = _read_body(shape, body)
        except _DECODE_ERRORS as error:
            raise ProtocolError(f"{shape.command.__name__}: {_named(error, shape)}") from None
        answer.code = envelope.code
        answer.remark = envelope.remark
        return answer

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        declaration = declaration_of(type(request))
        flag = ONEWAY_FLAG if oneway else 0
        return _frame(declaration.code, opaque, flag, request.remark, declaration.request, request)

    def encode_answer(self, answer: Answer, opaque: int, store_host: bytes = b"") -> bytes:
        return _frame(answer.code, opaque, ANSWER_FLAG, answer.remark, answer_shape(type(answer)), answer)


def frame(code: int, opaque: int, flag: int, fields: bytes, body: bytes) -> bytes:
    """Return a frame without a remark, from encoded parts. The hand-written encoders use it, too."""
    length = ENVELOPE_HEADER_BYTES + len(fields)
    head = ENVELOPE.pack(
        4 + length + len(body), CODEC_WORD | length, ARRAY_OF_7, U32, code, U32, opaque, flag, U16, VERSION, PYTHON, NIL
    )
    return head + fields + body


def _frame(code: int, opaque: int, flag: int, remark: str | None, shape: Shape, command: Any) -> bytes:
    fields = _encode([getattr(command, name) for name in shape.fields]) if shape.fields else b"\xc0"
    body = _write_body(command.body)
    if remark is None:
        whole = frame(code, opaque, flag, fields, body)
    else:
        header = _HEADER.pack(ARRAY_OF_7, U32, code, U32, opaque, flag, U16, VERSION, PYTHON) + _encode(remark) + fields
        whole = Struct(">II").pack(4 + len(header) + len(body), CODEC_WORD | len(header)) + header + body
    if len(whole) > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {len(whole)} bytes is over the limit of {FRAME_BYTES_MAX}")
    return whole


def _write_body(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, Records):
        return join_records(body.slices, body.count)
    return _encode(body.value if isinstance(body, StandardJson) else body)


def _read_body(shape: Shape, body: bytes) -> Any:
    if shape.body_type is bytes:
        return body
    if not body:
        return None
    if shape.body_type is Records:
        return RecordBatch(decode_records(body))
    return shape.body_decoder.decode(body)


def _named(error: Exception, shape: Shape) -> str:
    """Replace msgspec's array indexes by wire names."""
    words = str(error)
    if (short := re.search(_SHORT_ARRAY, words)) is not None and int(short[1]) < len(shape.fields):
        return f"the required field {shape.names[shape.fields[int(short[1])]]} is missing"
    for index, field in enumerate(shape.fields):
        words = words.replace(f"$[{index}]", shape.names[field])
    return words
