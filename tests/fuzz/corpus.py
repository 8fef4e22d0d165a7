"""What gets spoilt: frames of every declared command in each codec, the differential's script, golden records."""

import json
import random
import struct
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, codec_for
from staticfire.protocol.command import REQUESTS, Answer, Declaration, Records, Request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.record import pack_stored
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from tests.integration.fuzzing import NUMBERS, TEXTS, USUAL
from tests.oracle.cases import script
from tests.oracle.step import Ask, Raw
from tests.protocol.rocketmq_answers import split_rocketmq

CODECS = {"JSON": JSON, "ROCKETMQ": ROCKETMQ, "msgpack": NATIVE}
GOLDEN = Path(__file__).resolve().parent.parent / "protocol" / "golden"
STORE_HOST = pack_host("10.0.0.7", 10911)
VARIANTS = 4
# Of each request and answer, with other values.
TRIES = 20
OPAQUE = 1
"""Of every frame: what a connection's first question has."""

Frame = tuple[bytes, Declaration | None]
"""A frame and, if it is an answer, what it answers."""


def golden_records() -> list[bytes]:
    """Return records as they lay in the logs of real brokers."""
    records = []
    for path in sorted(GOLDEN.glob("*.bin")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            records.append(data[at : at + size])
            at += size
    return records


def stored_records() -> list[bytes]:
    """Return the same as they lie in our own log."""
    return [pack_stored(split_rocketmq(record)[0][0]) for record in golden_records()]


def batches() -> list[bytes]:
    """Return bodies of batch sends."""
    properties = b"TAGS\x01a\x02UNIQ_KEY\x01u\x02"
    messages = [
        BatchMessage(0, b"body", properties),
        BatchMessage(-1, b"", b""),
        BatchMessage(7, b"x" * 300, b"a\x01b"),
    ]
    return [encode_batch(messages[:count]) for count in range(1, 4)] + [encode_batch(messages * 5)]


class Corpus:
    """All frames of one codec."""

    def __init__(self, codec_byte: int, seed: int, spared: Collection[int] = ()) -> None:
        """`spared`: codes of requests that are left out."""
        self._random = random.Random(seed)
        self._codec = codec_for(codec_byte)
        self._stored = stored_records()
        self._bodies = [b"", b"a body", *batches(), *golden_records()]
        self.frames: list[Frame] = []
        self.questions: dict[int, Request] = {}
        """One of each code."""
        for declaration in REQUESTS.values():
            for _ in range(VARIANTS):
                if declaration.code not in spared:
                    self._add(partial(self._request, declaration), None)
                self._add(partial(self._answer, declaration), declaration)
        if codec_byte == JSON:
            self.frames += [(frame, None) for frame in script_frames()]

    def _add(self, make: Callable[[], bytes], answered: Declaration | None) -> None:
        """Add a frame; values that don't go into this codec are replaced by others, a code that doesn't is left out."""
        for _ in range(TRIES):
            try:
                self.frames.append((make(), answered))
            except (ProtocolError, OverflowError, UnicodeEncodeError, TypeError):
                continue
            return

    def _request(self, declaration: Declaration) -> bytes:
        command = declaration.request.command
        fields: dict[str, Any] = self._fields(command)
        request = cast(Request, command(**fields, body=self._body(declaration.request.body_type)))
        frame = self._codec.encode_request(request, OPAQUE, self._random.random() < 0.1)
        self.questions[declaration.code] = request
        return frame

    def _answer(self, declaration: Declaration) -> bytes:
        command = declaration.answer.command
        remark = self._random.choice([None, "FOUND", "no", "é" * 40])
        body = self._body(declaration.answer.body_type)
        fields: dict[str, Any] = {**self._fields(command), "code": self._random.choice([0, 0, 1, 19])}
        answer = cast(Answer, command(**fields, remark=remark, body=body))
        return self._codec.encode_answer(answer, OPAQUE, STORE_HOST)

    def _fields(self, command: type[Any]) -> dict[str, Any]:
        kinds = {field.name: field.type for field in msgspec.structs.fields(command)}
        names = [name for name in kinds if name not in ("code", "remark", "body")]
        return {name: self._field(name, kinds[name]) for name in names}

    def _field(self, name: str, kind: Any) -> Any:
        return (
            USUAL[name]
            if name in USUAL and self._random.random() < 0.8
            else self._value(msgspec.inspect.type_info(kind))
        )

    def _body(self, kind: Any) -> Any:
        if kind is bytes:
            return self._random.choice(self._bodies)
        if kind is Records:
            slices = self._random.choices(self._stored, k=self._random.randrange(4))
            return Records(slices, len(slices))
        return self._value(msgspec.inspect.type_info(kind))

    def _value(self, kind: msgspec.inspect.Type) -> Any:
        """Return a value of a type."""
        inspect, choose = msgspec.inspect, self._random.choice
        if isinstance(kind, inspect.UnionType):
            return self._value(choose(kind.types))
        if isinstance(kind, inspect.StructType):
            return kind.cls(**{field.name: self._value(field.type) for field in kind.fields})
        if isinstance(kind, inspect.DictType):
            pairs = [(self._value(kind.key_type), self._value(kind.value_type)) for _ in range(2)]
            return dict(pairs)
        if isinstance(kind, inspect.ListType | inspect.CollectionType):
            return [self._value(kind.item_type) for _ in range(self._random.randrange(3))]
        plain: dict[type, list[Any]] = {
            inspect.StrType: TEXTS,
            inspect.IntType: NUMBERS,
            inspect.BoolType: [True, False],
            inspect.FloatType: [0.0, -1.5, 1e300],
            inspect.BytesType: self._bodies,
        }
        return choose(plain.get(type(kind), [None]))


def script_frames() -> list[bytes]:
    """Return what the differential sends to both sides."""
    frames = []
    for step in script():
        if isinstance(step, Raw) and len(step.data) < 10_000:
            frames.append(step.data)
        elif isinstance(step, Ask):
            header: dict[str, Any] = {
                "code": step.code,
                "language": "JAVA",
                "version": 479,
                "opaque": OPAQUE,
                "flag": 0,
            }
            if step.fields is not None:
                header["extFields"] = dict(step.fields)
            head = json.dumps({**header, **step.header}).encode()
            body = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
            if len(body) < 10_000:
                frames.append(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
    return frames
