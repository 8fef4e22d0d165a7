"""Numbers at and beyond the ends of Java's int and long, in every field of every request, across the codecs.

What one codec takes in, each of the others has to be able to tell; so what no codec could tell is refused.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec
import pytest

from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, Codec, codec_for
from staticfire.protocol.command import REQUESTS, Declaration, Records, Request, declaration_of
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer, UpdateConsumerOffset
from staticfire.protocol.requests.pull import PullMessage
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.runtime.dispatcher import Call, Dispatcher
from tests.fuzz.reading import Wire, connected

ENDS = [2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
BEYOND = [2**63, -(2**63) - 1, 2**64, 10**30]
CODECS: list[Codec] = [codec_for(number) for number in (NATIVE, JSON, ROCKETMQ)]
SAMPLES: list[Request] = [
    SendMessageV2("g", "t", "TBW102", 4, 1, 0, 5, 0, "", body=b"hello"),
    PullMessage("g", "t", 1, 7, 32, 3, 0, 15_000, "*", 0, "TAG"),
    UpdateConsumerOffset("g", "t", 1, 7),
]


def number_fields(request: Request) -> list[str]:
    fields = declaration_of(type(request)).request.fields
    return [
        name
        for name in fields
        if isinstance(getattr(request, name), int) and not isinstance(getattr(request, name), bool)
    ]


def cases() -> Iterator[tuple[Request, str]]:
    for request in SAMPLES:
        for name in number_fields(request):
            yield request, name


def json_frame(declaration: Declaration, request: Request, name: str, value: int) -> bytes:
    """Return a JSON request in which one number is another one."""
    texts: dict[str, str] = {}
    for field, wire in declaration.request.names.items():
        text = value if field == name else getattr(request, field)
        if text is not None:
            texts[wire] = str(text)
    header = json.dumps({"code": declaration.code, "opaque": 7, "extFields": texts}).encode()
    body = request.body or b""
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


@pytest.mark.parametrize(("request_", "name"), list(cases()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_json_brings_in_every_codec_can_tell(request_: Request, name: str) -> None:
    declaration = declaration_of(type(request_))
    for value in ENDS + BEYOND:
        frame = json_frame(declaration, request_, name, value)
        header_bytes = int.from_bytes(frame[4:8], "big") & 0xFFFFFF
        codec = codec_for(JSON)
        envelope = codec.decode_envelope(frame[8 : 8 + header_bytes])
        try:
            read = codec.decode_request(declaration, envelope, frame[8 + header_bytes :])
        except ProtocolError:
            assert value != 2**31 - 1
            continue
        assert value not in BEYOND
        for other in CODECS:
            whole = other.encode_request(_plain(declaration, read), 7, False)
            size = int.from_bytes(whole[5:8], "big")
            again = other.decode_request(declaration, other.decode_envelope(whole[8 : 8 + size]), whole[8 + size :])
            assert getattr(again, name) == value


@pytest.mark.parametrize("name", ["code", "opaque", "flag", "version"])
def test_a_number_of_a_header_is_an_int_of_java(name: str) -> None:
    """Any other would be in each response about the client, and not all codecs can write it."""
    codec = codec_for(JSON)
    for value in [*BEYOND, 2**31, -(2**31) - 1]:
        for quote in ("", '"', "'"):
            header = f'{{"code":11,"{name}":{quote}{value}{quote},"extFields":{{}}}}'.encode()
            with pytest.raises(ProtocolError, match=name):
                codec.decode_envelope(header)


def _plain(declaration: Declaration, request: Any) -> Request:
    """Return a request that was read as one that can be asked."""
    made: Any = declaration.request.command(**{name: getattr(request, name) for name in declaration.request.fields})
    made.body = request.body
    assert isinstance(made, Request)
    return made


@pytest.mark.parametrize("codec", CODECS, ids=["native", "json", "rocketmq"])
async def test_an_answer_that_cannot_be_written_is_a_refusal(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATICFIRE_LOG_LEVEL", "error")
    dispatcher = Dispatcher()
    written: list[bytes] = []

    def answer(call: Call) -> Any:
        return OffsetAnswer("\ud800") if codec.number != NATIVE else OffsetAnswer(2**70)  # type: ignore[arg-type]

    dispatcher.handle(30, answer)
    connection = connected(codec.number, True, dispatcher)
    wire = connection.transport
    assert isinstance(wire, Wire)
    monkeypatch.setattr(wire, "write", written.append)
    connection.data_received(codec.encode_request(GetMaxOffset("t", 1), 5, False) * 2)
    assert not wire.is_closed
    data = b"".join(written)
    size = int.from_bytes(data[5:8], "big")
    envelope = codec.decode_envelope(data[8 : 8 + size])
    assert (envelope.code, envelope.opaque) == (1, 5)
    assert "can't be encoded" in str(envelope.remark)


def test_a_code_that_fits_no_binary_header_is_refused() -> None:
    with pytest.raises(ProtocolError):
        codec_for(ROCKETMQ).encode_answer(OffsetAnswer(1, code=2**15), 1)


def test_every_number_of_every_request_has_a_range() -> None:
    """Only annotated numbers are checked when they are decoded."""
    bare = [
        f"{declaration.name}.{field.name}"
        for declaration in REQUESTS.values()
        for shape in (declaration.request, declaration.answer)
        for field in msgspec.structs.fields(shape.command)
        if field.name in shape.names and field.type in (int, int | None)
    ]
    assert bare == []


def test_every_number_of_every_body_has_a_range() -> None:
    bare = [
        f"{declaration.name}: {path}"
        for declaration in REQUESTS.values()
        for path in bare_numbers(declaration.request.body_type, "body")
    ]
    assert bare == []


def bare_numbers(kind: Any, path: str) -> Iterator[str]:
    """Yield where in a type there are numbers that nothing checks."""
    if kind is int:
        yield path
    elif get_origin(kind) is Annotated or kind is Records:
        return  # Records are counted, not returned.
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if get_origin(hint) is not ClassVar:
                yield from bare_numbers(hint, f"{path}.{name}")
    else:
        for part in get_args(kind):
            yield from bare_numbers(part, path)
