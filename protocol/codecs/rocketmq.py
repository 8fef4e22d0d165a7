"""Codec 1: RocketMQ's binary headers. Bodies and the texts of all fields are those of codec 0.

    offset  bytes         what
    0       u32           frame length, without these four bytes
    4       01, u24       codec, header length
    8       i16           code
    10      i8            language
    11      i16           version
    13      i32           opaque
    17      i32           flag: 1 response, 2 one-way
    21      i32, n        remark, UTF-8; length 0: none
    25+n    i32, m        header fields: pairs of (i16, name) and (i32, text); length 0: none

Clients use it if ROCKETMQ_SERIALIZE_TYPE (or rocketmq.serialize.type) is ROCKETMQ. Invariant: a header has exactly the
same content as in codec 0, because its fields are read and written as that string map. A code above 32,767 doesn't fit;
in RocketMQ it overflows, here it is an error. RocketMQ: RocketMQSerializable.
"""

from contextlib import suppress
from struct import Struct, error as StructError
from typing import Any

import msgspec

from staticfire.protocol.codecs.codec import ANSWER_FLAG, ONEWAY_FLAG, ROCKETMQ, Envelope
from staticfire.protocol.codecs.json import JsonCodec, fields_text, write_body
from staticfire.protocol.codes import VERSION, LanguageCode
from staticfire.protocol.command import Answer, Request, Shape, answer_shape, declaration_of
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX

CODE_MAX = 2**15 - 1

_FIXED = Struct(">hbhii")
_LENGTH = Struct(">i")
_NAME_LENGTH = Struct(">h")
_FRAME = Struct(">II")
_CODEC_WORD = ROCKETMQ << 24
_PYTHON = int(LanguageCode.PYTHON)
_encode_json = msgspec.json.Encoder().encode


class RocketmqCodec(JsonCodec):
    """Binary headers, and the bodies of codec 0."""

    number = ROCKETMQ

    def decode_envelope(self, header: bytes) -> Envelope:
        try:
            code, language, version, opaque, flag = _FIXED.unpack_from(header)
            remark, at = _read_text(header, _FIXED.size, _LENGTH)
            fields_bytes = _LENGTH.unpack_from(header, at)[0]
            fields = _read_fields(header, at + _LENGTH.size, fields_bytes) if fields_bytes > 0 else None
        except (StructError, UnicodeDecodeError) as error:
            raise ProtocolError(f"ROCKETMQ header of {len(header)} bytes: {error}") from None
        # RocketMQ uses only two bits of the flag. The language may be a newer one that isn't known here.
        return Envelope(code, opaque, flag, version, language & 0xFF, remark or None, fields)

    def decode_answer(self, shape: Shape, envelope: Envelope, body: bytes) -> Answer:
        if envelope.fields is None and shape.fields:
            # A header without fields and one with all fields left out look the same here.
            with suppress(ProtocolError):
                return super().decode_answer(shape, msgspec.structs.replace(envelope, fields=b"{}"), body)
        return super().decode_answer(shape, envelope, body)

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        declaration = declaration_of(type(request))
        texts = fields_text(declaration.request, request)
        flag = ONEWAY_FLAG if oneway else 0
        return _frame(declaration.code, opaque, flag, request.remark, texts, write_body(request.body, b""))

    def encode_answer(self, answer: Answer, opaque: int, store_host: bytes = b"") -> bytes:
        shape = answer_shape(type(answer))
        texts = fields_text(shape, answer) if shape.fields else {}
        body = write_body(answer.body, store_host)
        return _frame(answer.code, opaque, ANSWER_FLAG, answer.remark, texts, body)


def _read_fields(header: bytes, at: int, fields_bytes: int) -> bytes:
    end = at + fields_bytes
    if end > len(header):
        raise ProtocolError(f"{fields_bytes} bytes of header fields in a header that has {len(header) - at} left")
    texts: dict[str, str] = {}
    while at < end:
        name, at = _read_text(header, at, _NAME_LENGTH)
        texts[name], at = _read_text(header, at, _LENGTH)
    return _encode_json(texts)


def _read_text(header: bytes, at: int, length: Struct) -> tuple[str, int]:
    """Return the text after its length, and where it ends; a length below 1 is an empty text."""
    begin = at + length.size
    end = begin + max(0, length.unpack_from(header, at)[0])
    if end > len(header):
        raise ProtocolError(f"a text of {end - begin} bytes in a header that has {len(header) - begin} left")
    return header[begin:end].decode(), end


def _frame(code: int, opaque: int, flag: int, remark: str | None, texts: dict[str, str], body: bytes) -> bytes:
    if not 0 <= code <= CODE_MAX:
        raise ProtocolError(f"code {code} doesn't fit into a ROCKETMQ header, the limit is {CODE_MAX}")
    fields = b"".join([_write_text(name, _NAME_LENGTH) + _write_text(text, _LENGTH) for name, text in texts.items()])
    header = (
        _FIXED.pack(code, _PYTHON, VERSION, opaque, flag)
        + _write_text(remark or "", _LENGTH)
        + _LENGTH.pack(len(fields))
        + fields
    )
    length = 4 + len(header) + len(body)
    if length + 4 > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {length + 4} bytes is over the limit of {FRAME_BYTES_MAX}")
    return _FRAME.pack(length, _CODEC_WORD | len(header)) + header + body


def _write_text(text: Any, length: Struct) -> bytes:
    encoded: bytes = text.encode()
    return length.pack(len(encoded)) + encoded
