"""Commands: requests and responses, and how they are declared.

A command is declared once, as a `msgspec.Struct` whose fields are the header's fields in wire order. The parts of the
envelope (code, remark) and the body come last and belong to every command. `@request(code, answer=...)` adds it to
`REQUESTS`, which all codecs use: codec 2 writes the fields as one msgpack array, codec 0 as RocketMQ's string map under
the wire names. The request-code tables of the documentation are made from it, too.

    @request(RequestCode.GET_MAX_OFFSET, answer=OffsetAnswer)
    class GetMaxOffset(Request):
        topic: str
        queue_id: int
        committed: bool = True

Wire names are RocketMQ's: the field's name in camel case, or the one in `msgspec.field(name=...)`.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.limits import FRAME_BYTES_MAX, REQUEST_BODY_BYTES_MAX
from staticfire.protocol.record import StoredRecord

_ENVELOPE_FIELDS = frozenset({"code", "remark", "body"})


class Request(msgspec.Struct, array_like=True, gc=False, kw_only=True, rename="camel"):
    """A request of either side. `body` is bytes, or of the type that the subclass declares."""

    body_type: ClassVar[Any] = bytes
    when_absent: ClassVar[Mapping[str, Any]] = {}
    """Default values for fields that are required here but that RocketMQ's clients may leave out."""
    body_bytes_max: ClassVar[int | None] = None
    """Longer bodies aren't decoded but refused. None: the limit of a frame for bytes, else REQUEST_BODY_BYTES_MAX."""

    body: Any = None
    remark: str | None = None

    def check_body(self, body: bytes) -> None:
        """Check the bytes of a body in RocketMQ's format, before they are decoded. Raises: ProtocolError."""


class Answer(msgspec.Struct, array_like=True, gc=False, kw_only=True, rename="camel"):
    """A response. One without header fields, such as every refusal, is an `Answer` itself."""

    body_type: ClassVar[Any] = bytes
    json_fields: ClassVar[frozenset[str] | None] = None
    """The fields that RocketMQ's map contains, if it leaves some out; None for all."""

    code: int = 0
    remark: str | None = None
    body: Any = None


class StandardJson(msgspec.Struct, gc=False):
    """A body that must be standard JSON: numeric keys are quoted. Clients from RocketMQ 4.9.4 on request it."""

    value: Any


class Records(msgspec.Struct, gc=False):
    """Stored records to be sent: slices of the log, and the number of records in them."""

    slices: list[bytes]
    count: int


class RocketmqRecords(msgspec.Struct, gc=False):
    """Records to be sent to a RocketMQ client, in its format, with the store host for that client."""

    records: list[bytes]


class RecordBatch(msgspec.Struct, gc=False):
    """Received stored records. `store_hosts`: 8 or 20 bytes for each record, if the codec carries them."""

    records: list[StoredRecord]
    store_hosts: list[bytes] | None = None


R = TypeVar("R", bound=Request)
Command = Request | Answer


class Shape:
    """The wire format of one command class: its header fields, their names, its decoders."""

    def __init__(self, command: type[Command], names: Mapping[str, str] | None = None) -> None:
        """`names`: wire names by field, if the class uses other names than its own (send, V2)."""
        self.command = command
        self.body_type = command.body_type
        """The declared type of the body; `bytes` if the body isn't decoded."""
        pairs = zip(command.__struct_fields__, command.__struct_encode_fields__, strict=True)
        self.names = {field: (names or {}).get(field, wire) for field, wire in pairs if field not in _ENVELOPE_FIELDS}
        self.fields = tuple(self.names)
        assert command.__struct_fields__[: len(self.fields)] == self.fields, "header fields must be first in the array"

    @cached_property
    def hot_body(self) -> bool:
        """Whether the body is raw bytes of any length, so that only the header must be checked."""
        return self.body_type is bytes and self.body_bytes_max == FRAME_BYTES_MAX

    @cached_property
    def body_bytes_max(self) -> int:
        """The maximum size of a request's body, which is checked before it is decoded."""
        declared: int | None = getattr(self.command, "body_bytes_max", None)
        if declared is not None:
            return declared
        return FRAME_BYTES_MAX if self.body_type in (bytes, Records) else REQUEST_BODY_BYTES_MAX

    @cached_property
    def native(self) -> "msgspec.msgpack.Decoder[Any]":
        """The decoder of the msgpack array of header fields."""
        return msgspec.msgpack.Decoder(self.command)

    @cached_property
    def foreign_type(self) -> type[Any]:
        """The same class, but encoded as an object with the wire names instead of an array."""
        rows: list[Any] = []
        absent: Mapping[str, Any] = getattr(self.command, "when_absent", {})
        for field in msgspec.structs.fields(self.command):
            if field.name in self.names:
                value = absent.get(field.name, field.default)
                default = {"default": value} if value is not msgspec.NODEFAULT else {}
                rows.append((field.name, field.type, msgspec.field(name=self.names[field.name], **default)))
        # The name is part of error messages.
        name = self.command.__name__
        return msgspec.defstruct(name, rows, bases=(self.command,), array_like=False, gc=False, kw_only=True)

    @cached_property
    def foreign(self) -> "msgspec.json.Decoder[Any]":
        """The decoder of RocketMQ's string map. It turns "4" into 4 and "false" into False, as fastjson does."""
        return msgspec.json.Decoder(self.foreign_type, strict=False)

    @cached_property
    def body_decoder(self) -> "msgspec.msgpack.Decoder[Any]":
        return msgspec.msgpack.Decoder(self.body_type)


class Declaration:
    """A request code with the shapes of its request and its response."""

    def __init__(self, code: RequestCode, request: Shape, answer: Shape) -> None:
        self.code = int(code)
        self.name = code.name
        self.request = request
        self.answer = answer


REQUESTS: dict[int, Declaration] = {}
_DECLARATIONS: dict[type[Request], Declaration] = {}
_ANSWER_SHAPES: dict[type[Answer], Shape] = {}
PLAIN_ANSWER = Shape(Answer)


def answer_shape(answer: type[Answer]) -> Shape:
    """Return the shape of a response class. There is one per class."""
    if answer is Answer:
        return PLAIN_ANSWER
    if answer not in _ANSWER_SHAPES:
        _ANSWER_SHAPES[answer] = Shape(answer)
    return _ANSWER_SHAPES[answer]


def request(
    code: RequestCode, answer: type[Answer] = Answer, names: Mapping[str, str] | None = None
) -> Callable[[type[R]], type[R]]:
    """Declare the decorated class as the request with that code."""

    def declare(command: type[R]) -> type[R]:
        if int(code) in REQUESTS:
            first = REQUESTS[int(code)].request.command.__name__
            raise TypeError(f"request code {code} is declared twice: {first}, {command.__name__}")
        declaration = Declaration(code, Shape(command, names), answer_shape(answer))
        REQUESTS[declaration.code] = declaration
        _DECLARATIONS[command] = declaration
        return command

    return declare


def also_as(code: RequestCode, answer: type[Answer]) -> Callable[[type[R]], type[R]]:
    """Declare another form of a declared request, for clients that decode its response differently.

    Both forms are the same on the wire; servers use only the first one.
    """

    def declare(command: type[R]) -> type[R]:
        assert int(code) in REQUESTS, "the first form must be declared before"
        _DECLARATIONS[command] = Declaration(code, Shape(command), answer_shape(answer))
        return command

    return declare


def declaration_of(command: type[Request]) -> Declaration:
    """Return the declaration of a request class."""
    return _DECLARATIONS[command]


def as_declared(request: R) -> R:
    """Return a request as its declared class, so that it can be forwarded. Decoding JSON yields a derived class."""
    kind: Any = type(request)
    while kind not in _DECLARATIONS:
        kind = kind.__base__
    if kind is type(request):
        return request
    return cast(R, kind(**{name: getattr(request, name) for name in kind.__struct_fields__}))


def refusal(code: int, remark: str) -> Answer:
    """Return an error response."""
    return Answer(code=int(code), remark=remark)


SUCCESS = int(ResponseCode.SUCCESS)
