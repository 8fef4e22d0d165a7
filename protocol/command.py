"""What a command is, and how one is declared.

A command is declared once, as a `msgspec.Struct` whose fields are the header's fields in wire order; the envelope's
parts (code, remark) and the body come last and belong to every command. `@request(code, answer=...)` files it in
`REQUESTS`, from which all codecs read: codec 2 writes the fields as one msgpack array, codec 0 as RocketMQ's string
map under the names given here. The request-code tables of the documentation come from here, too.

    @request(RequestCode.GET_MAX_OFFSET, answer=OffsetAnswer)
    class GetMaxOffset(Request):
        topic: str
        queue_id: int
        committed: bool = True

Wire names are RocketMQ's: the field's name in camel case, or what `msgspec.field(name=...)` says.
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
    """What one side asks of the other. `body` is bytes, or of the type that the subclass declares."""

    body_type: ClassVar[Any] = bytes
    when_absent: ClassVar[Mapping[str, Any]] = {}
    """What the fields count as that are required here and that RocketMQ lets its clients leave out."""
    body_bytes_max: ClassVar[int | None] = None
    """Longer bodies are refused unread. None: a frame's for bytes as they are, else REQUEST_BODY_BYTES_MAX."""

    body: Any = None
    remark: str | None = None


class Answer(msgspec.Struct, array_like=True, gc=False, kw_only=True, rename="camel"):
    """What comes back. An answer without header fields, such as every refusal, is an `Answer` itself."""

    body_type: ClassVar[Any] = bytes
    json_fields: ClassVar[frozenset[str] | None] = None
    """Those that RocketMQ's map has, where it leaves some out; None for all."""

    code: int = 0
    remark: str | None = None
    body: Any = None


class StandardJson(msgspec.Struct, gc=False):
    """A body whose JSON has to be standard: numbers as keys are quoted (RocketMQ 4.9.4 and later ask for it)."""

    value: Any


class Records(msgspec.Struct, gc=False):
    """Stored records on their way out: slices of the log, and how many records there are in them."""

    slices: list[bytes]
    count: int


class RocketmqRecords(msgspec.Struct, gc=False):
    """Records on their way out to a RocketMQ client, as it reads them: with the store host that it is told."""

    records: list[bytes]


class RecordBatch(msgspec.Struct, gc=False):
    """Stored records as they came in. `store_hosts`: of each, 8 or 20 bytes, where the codec carries them."""

    records: list[StoredRecord]
    store_hosts: list[bytes] | None = None


R = TypeVar("R", bound=Request)
Command = Request | Answer


class Shape:
    """How one command class looks on the wire: its header fields, their names, its decoders."""

    def __init__(self, command: type[Command], names: Mapping[str, str] | None = None) -> None:
        """`names`: wire names by field, where the class is used under other names than its own (send, V2)."""
        self.command = command
        pairs = zip(command.__struct_fields__, command.__struct_encode_fields__, strict=True)
        self.names = {field: (names or {}).get(field, wire) for field, wire in pairs if field not in _ENVELOPE_FIELDS}
        self.fields = tuple(self.names)
        assert command.__struct_fields__[: len(self.fields)] == self.fields, "header fields come first in the array"

    @property
    def body_type(self) -> Any:
        """The declared type of the body; `bytes` for bytes as they are."""
        return self.command.body_type

    @cached_property
    def hot_body(self) -> bool:
        """Whether the body is bytes as they are, of any length, so that nothing but the header has to be looked at."""
        return self.body_type is bytes and self.body_bytes_max == FRAME_BYTES_MAX

    @cached_property
    def body_bytes_max(self) -> int:
        """What a request's body may have before anybody decodes it."""
        declared: int | None = getattr(self.command, "body_bytes_max", None)
        if declared is not None:
            return declared
        return FRAME_BYTES_MAX if self.body_type in (bytes, Records) else REQUEST_BODY_BYTES_MAX

    @cached_property
    def native(self) -> "msgspec.msgpack.Decoder[Any]":
        """Decoder of the msgpack array of header fields."""
        return msgspec.msgpack.Decoder(self.command)

    @cached_property
    def foreign_type(self) -> type[Any]:
        """The same class, reading and writing an object under the wire names instead of an array."""
        rows: list[Any] = []
        absent: Mapping[str, Any] = getattr(self.command, "when_absent", {})
        for field in msgspec.structs.fields(self.command):
            if field.name in self.names:
                value = absent.get(field.name, field.default)
                default = {"default": value} if value is not msgspec.NODEFAULT else {}
                rows.append((field.name, field.type, msgspec.field(name=self.names[field.name], **default)))
        name = self.command.__name__  # It stands in remarks.
        return msgspec.defstruct(name, rows, bases=(self.command,), array_like=False, gc=False, kw_only=True)

    @cached_property
    def foreign(self) -> "msgspec.json.Decoder[Any]":
        """Decoder of RocketMQ's string map: turns "4" into 4 and "false" into False, as fastjson does."""
        return msgspec.json.Decoder(self.foreign_type, strict=False)

    @cached_property
    def body_decoder(self) -> "msgspec.msgpack.Decoder[Any]":
        return msgspec.msgpack.Decoder(self.body_type)


class Declaration:
    """A request code with the shapes of its request and its answer."""

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
    """Return the shape of an answer class; one per class."""
    if answer is Answer:
        return PLAIN_ANSWER
    if answer not in _ANSWER_SHAPES:
        _ANSWER_SHAPES[answer] = Shape(answer)
    return _ANSWER_SHAPES[answer]


def request(
    code: RequestCode, answer: type[Answer] = Answer, names: Mapping[str, str] | None = None
) -> Callable[[type[R]], type[R]]:
    """Declare the decorated class as the request of that code."""

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
    """Declare the decorated class as another form of a declared request, for clients that read its answer otherwise.

    It looks the same on the wire; servers know the first form only.
    """

    def declare(command: type[R]) -> type[R]:
        assert int(code) in REQUESTS, "the first form is declared before"
        _DECLARATIONS[command] = Declaration(code, Shape(command), answer_shape(answer))
        return command

    return declare


def declaration_of(command: type[Request]) -> Declaration:
    """Return under which code a request class travels."""
    return _DECLARATIONS[command]


def as_declared(request: R) -> R:
    """Return a request as its declared class, to be sent on; what real remoting clients send is read as another one."""
    kind: Any = type(request)
    while kind not in _DECLARATIONS:
        kind = kind.__base__
    if kind is type(request):
        return request
    return cast(R, kind(**{name: getattr(request, name) for name in kind.__struct_fields__}))


def refusal(code: int, remark: str) -> Answer:
    """Return an answer that says no."""
    return Answer(code=int(code), remark=remark)


SUCCESS = int(ResponseCode.SUCCESS)
