"""Frames and headers that nobody should send, and codes that nobody serves."""

import struct
from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.cases.common import send
from tests.oracle.step import Ask, Raw, Step, Value

UNSERVED = (13, 22, 23, 27, 39, 40, 47, 100, 105, 106, 206, 209, 214, 220, 221, 301, 302, 326, 902, 9999, 32767, -1, 0)


def frame(
    header: bytes, body: bytes = b"", length: int | None = None, head: int | None = None, codec: int = 0
) -> bytes:
    """A frame, with lengths that may be wrong."""
    whole = 4 + len(header) + len(body) if length is None else length
    return struct.pack(">II", whole, codec << 24 | (len(header) if head is None else head)) + header + body


def binary(code: int, **fields: str) -> bytes:
    """A header in RocketMQ's own binary form."""
    entries = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value)) + value.encode()
        for name, value in fields.items()
    )
    return struct.pack(">hbhiiii", code, 0, 479, 1, 0, 0, len(entries)) + entries


def steps() -> Iterator[Step]:
    """The steps of this family."""
    for code in UNSERVED:
        yield Ask(f"code {code}", code, {})
    yield from _headers()
    yield from _bytes()


def _headers() -> Iterator[Step]:
    base = send("header", topic="{run}headers")
    headers: dict[str, dict[str, Value]] = {
        "of an unknown language": {"language": "KLINGON"},
        "of a number as language": {"language": 12},
        "of no language": {"language": None},
        "of text numbers": {"code": "10", "version": "479", "flag": "0"},
        "of version 0": {"version": 0},
        "of a negative version": {"version": -1},
        "of a far version": {"version": 99999},
        "with a remark": {"remark": "hello"},
        "of another serialization": {"serializeTypeCurrentRPC": "ROCKETMQ"},
        "of an unknown serialization": {"serializeTypeCurrentRPC": "NOPE"},
        "of unknown keys": {"nope": 1},
        "of other flags": {"flag": 4},
    }
    for name, header in headers.items():
        yield replace(base, name=f"header {name}", header=header)
    fields = b'{"topic":"nobodys","queueId":"0"}'
    for name, text in {
        "in single quotes": b"{'code':30,'extFields':{'topic':'nobodys','queueId':'0'},'opaque':5}",
        "with bare keys": b'{code:30,extFields:{topic:"nobodys",queueId:0},opaque:5}',
        "without opaque": b'{"code":30,"extFields":' + fields + b"}",
        "with spaces": b' { "code" : 30 , "opaque" : 5, "extFields" : ' + fields + b" } ",
        "with nested fields": b'{"code":30,"opaque":5,"extFields":{"topic":{"a":1},"queueId":[1]}}',
        "with a list as fields": b'{"code":30,"opaque":5,"extFields":[]}',
        "without code": b'{"opaque":5,"extFields":{}}',
        "of text as code": b'{"code":"x","opaque":5}',
        "that is a list": b"[]",
        "that is a number": b"5",
        "that is empty": b"",
        "that is null": b"null",
        "that is cut": b'{"code":30,"opaque":5',
        "that isn't UTF-8": b'{"code":30,"opaque":5,"remark":"\xff\xfe"}',
    }.items():
        yield Raw(f"header {name}", frame(text))


def _bytes() -> Iterator[Step]:
    good = b'{"code":30,"opaque":5,"extFields":{"topic":"nobodys","queueId":"0"}}'
    yield Raw("garbage", b"\x00" * 40)
    yield Raw("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    yield Raw("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50)
    yield Raw("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    yield Raw("a frame over the limit", frame(good, b"", length=16 * 1024 * 1024))
    yield Raw("a frame of length 0", frame(good, b"", length=0))
    yield Raw("a frame of negative length", frame(good, b"", length=0xFFFFFFF0))
    yield Raw("a header longer than its frame", frame(good, b"", head=len(good) + 50) + b"x" * 60)
    yield Raw("half a frame", frame(good)[:-10])
    yield Raw("an unknown codec", frame(good, codec=9))
    yield Raw("a binary header", frame(binary(106), codec=1), to="nameserver")
    yield Raw("a binary header with fields", frame(binary(30, topic="nobodys", queueId="0"), codec=1))
    yield Raw("a binary header without a field", frame(binary(30, topic="nobodys"), codec=1))
    yield Raw("a binary header of an unknown code", frame(binary(9999), codec=1))
    yield Raw("a binary header that is cut", frame(binary(30, topic="nobodys", queueId="0")[:-3], codec=1))
    yield Raw("a binary header of garbage", frame(b"\x7f" * 60, codec=1))
    yield Raw("an answer nobody asked for", frame(b'{"code":0,"flag":1,"opaque":77}'))
    yield Raw("one-way nonsense", frame(b'{"code":9999,"flag":2,"opaque":77}'))
    yield Raw("two requests at once", frame(good) + frame(good.replace(b"5", b"5", 1)))
