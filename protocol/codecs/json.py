"""Codec 0: JSON headers with a string map of fields, RocketMQ's JSON bodies and binary message records.

RocketMQ's 4.x and 5.x remoting clients use it. Reading is as lenient as fastjson: numbers as strings and vice versa,
missing and unknown fields, single quotes and bare keys. Writing is the same as in a RocketMQ 5.3 broker. RocketMQ:
RemotingCommand, RemotingSerializable.
"""

from typing import Any, TypeVar, cast

import msgspec

from staticfire.protocol.codecs.codec import ANSWER_FLAG, JSON, ONEWAY_FLAG, Codec, Envelope
from staticfire.protocol.codes import LANGUAGES_BY_NAME, VERSION, LanguageCode
from staticfire.protocol.command import (
    PLAIN_ANSWER,
    Answer,
    Declaration,
    RecordBatch,
    Records,
    Request,
    RocketmqRecords,
    Shape,
    StandardJson,
    answer_shape,
    declaration_of,
)
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import FRAME_BYTES_MAX, LENIENT_ANSWER_STEPS_MAX, LENIENT_STEPS_MAX
from staticfire.protocol.numbers import Int32
from staticfire.protocol.rocketmq_record import from_rocketmq, rocketmq_records

T = TypeVar("T")

_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_OTHER = int(LanguageCode.OTHER)


class _Header(msgspec.Struct, gc=False):
    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | None = None
    remark: str | None = None
    extFields: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 (RocketMQ's name)


_decode_header = msgspec.json.Decoder(_Header, strict=False).decode
_encode = msgspec.json.Encoder().encode


class _LenientHeader(msgspec.Struct):
    """A header as the lenient reader returns it; `strict` converts it into the usual form."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: Any = None
    remark: str | None = None
    extFields: dict[str, Any] | None = None  # noqa: N815 (RocketMQ's name)

    def strict(self) -> _Header:
        fields = msgspec.Raw(b"null" if self.extFields is None else _encode_as_fastjson(self.extFields))
        return _Header(self.code, self.opaque, self.flag, self.version, str(self.language), self.remark, fields)


class JsonCodec(Codec):
    """JSON headers, RocketMQ's bodies."""

    number = JSON

    def decode_envelope(self, header: bytes) -> Envelope:
        try:
            read = _decode_header(header)
        except _DECODE_ERRORS:
            read = _decode_as(header, _LenientHeader).strict()
        fields = bytes(read.extFields)
        return Envelope(
            read.code,
            read.opaque,
            read.flag,
            read.version,
            LANGUAGES_BY_NAME.get(read.language or "", _OTHER),
            read.remark or None,
            None if fields == b"null" else fields,
        )

    def decode_request(self, declaration: Declaration, envelope: Envelope, body: bytes) -> Request:
        try:
            request: Request = _read_fields(declaration.request, envelope.fields or b"{}")
            request.check_body(body)
            request.body = _read_body(declaration.request, body, LENIENT_STEPS_MAX)
        except ProtocolError as error:
            raise ProtocolError(f"{declaration.name}: {error}") from None
        request.remark = envelope.remark
        return request

    def decode_answer(self, shape: Shape, envelope: Envelope, body: bytes) -> Answer:
        if shape.fields and envelope.fields is None:
            shape = PLAIN_ANSWER
        answer: Answer = _read_fields(shape, envelope.fields or b"{}")
        answer.code = envelope.code
        answer.remark = envelope.remark
        answer.body = _read_body(shape, body, LENIENT_ANSWER_STEPS_MAX)
        return answer

    def encode_request(self, request: Request, opaque: int, oneway: bool) -> bytes:
        declaration = declaration_of(type(request))
        body = write_body(request.body, b"")
        fields = self.finished(fields_text(declaration.request, request), body)
        flag = ONEWAY_FLAG if oneway else 0
        return _frame(declaration.code, opaque, flag, request.remark, fields, body)

    def finished(self, fields: dict[str, str], body: bytes) -> dict[str, str]:
        """Return the header fields of a request. A client with an access key adds its signature here."""
        return fields

    def encode_answer(self, answer: Answer, opaque: int, store_host: bytes = b"") -> bytes:
        shape = answer_shape(type(answer))
        fields = fields_text(shape, answer) if shape.fields else None
        return _frame(answer.code, opaque, ANSWER_FLAG, answer.remark, fields, write_body(answer.body, store_host))


def _read_fields(shape: Shape, fields: bytes) -> Any:
    try:
        return shape.foreign.decode(fields)
    except _DECODE_ERRORS:
        return _decode_as(fields, shape.foreign_type)


def _read_body(shape: Shape, body: bytes, steps_max: int) -> Any:
    kind = shape.body_type
    if kind is bytes:
        return body
    if not body:
        return None
    return read_records(body) if kind is Records else _decode_as(body, kind, steps_max)


def frame(header: bytes, body: bytes) -> bytes:
    """Return a frame from encoded parts. The hand-written encoders use it, too."""
    size = len(header)
    return (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + header + body


def fields_text(shape: Shape, command: Any) -> dict[str, str]:
    """Return the header fields as RocketMQ's string map; None values are left out."""
    texts: dict[str, str] = {}
    wanted: frozenset[str] | None = getattr(command, "json_fields", None)
    for field, name in shape.names.items():
        if wanted is not None and field not in wanted:
            continue
        value = getattr(command, field)
        if value is not None:
            texts[name] = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return texts


def _frame(code: int, opaque: int, flag: int, remark: str | None, fields: dict[str, str] | None, body: bytes) -> bytes:
    header: dict[str, Any] = {"code": code}
    if fields is not None:
        header["extFields"] = fields
    header.update(flag=flag, language="PYTHON", opaque=opaque)
    if remark is not None:
        header["remark"] = remark
    header.update(serializeTypeCurrentRPC="JSON", version=VERSION)
    whole = frame(_encode(header), body)
    if len(whole) > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {len(whole)} bytes is over the limit of {FRAME_BYTES_MAX}")
    return whole


def write_body(body: Any, store_host: bytes) -> bytes:
    """Return a body of any kind as RocketMQ writes it."""
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, Records):
        return b"".join(rocketmq_records(body.slices, store_host))
    if isinstance(body, RocketmqRecords):
        return b"".join(body.records)
    if isinstance(body, StandardJson):
        return _encode_as_fastjson(body.value, quote_number_keys=True)
    return _encode_as_fastjson(body)


def _decode_as(data: bytes, kind: type[T], steps_max: int = LENIENT_STEPS_MAX) -> T:
    """Call `fastjson.decode_as`, which is imported when a client first sends JSON beyond a few hot headers."""
    from staticfire.protocol import fastjson

    return fastjson.decode_as(data, kind, steps_max)


def _encode_as_fastjson(value: Any, quote_number_keys: bool = False) -> bytes:
    """Call `fastjson.encode`, which is imported in the same way."""
    from staticfire.protocol import fastjson

    return fastjson.encode(value, quote_number_keys=quote_number_keys)


def read_records(body: bytes) -> RecordBatch:
    """Return the records of a body. CRCs aren't verified, so that one damaged record doesn't hide the others."""
    batch = RecordBatch([], [])
    at = 0
    while at < len(body):
        record, store_host, size = from_rocketmq(body, at, check_body=False)
        batch.records.append(record)
        cast(list[bytes], batch.store_hosts).append(store_host)
        at += size
    return batch
