"""How routes are declared: one `Route` per method and path. Pure.

Everything is derived from these declarations: what aiohttp serves, which parameters are refused and with which error,
the list of paths in `GET /`, the OpenAPI description, and the page at /docs.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from staticfire.control.controlled_cluster import ControlledCluster

JSON, LINES, TEXT, HTML = "application/json", "application/x-ndjson", "text/plain", "text/html"
WHOLE_MAX = (1 << 63) - 1
SHOWN_CHARS_MAX = 60
PLACES = {
    "group": "the name of a consumer group",
    "topic": "the name of a topic",
    "id": "an id of a message, or a key",
    "letter": "a dead letter: broker/queue/offset, like broker-a/0/17",
    "number": "the number of a fault rule",
    "name": "the name of a snapshot",
    "client": "the id of a client",
    "user": "the name of a user, which is its access key",
    "slave": "the name of a slave, like broker-a-1",
    "broker": "the name of a broker",
}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_PLACE = re.compile(r"\{(\w+)[^}]*\}")

Kind = Literal["string", "integer", "boolean", "number"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query string."""

    name: str
    text: str
    kind: Kind = "string"
    least: int = 0
    most: int = WHOLE_MAX
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """Return the value of a text. Raises: UsageError."""
        if self.choices and text not in self.choices:
            raise UsageError(
                f"{self._given(text)}: there are {', '.join(self.choices)}{did_you_mean(text, self.choices)}"
            )
        if self.kind == "integer":
            return self._whole(text)
        if self.kind == "boolean":
            if text not in (*_TRUE, *_FALSE):
                raise UsageError(f"{self._given(text)}: true or false is needed")
            return text in _TRUE
        return text

    def _whole(self, text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) <= 19 and self.least <= int(text) <= self.most:
            return int(text)
        up_to = "or more" if self.most == WHOLE_MAX else f"to {self.most}"
        raise UsageError(f"{self._given(text)}: a whole number is needed, {self.least} {up_to}")

    def _given(self, text: str) -> str:
        return f"{self.name}={text[:SHOWN_CHARS_MAX]}"

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values."""
        if self.kind == "boolean":
            return {"type": "string", "enum": [*_TRUE, *_FALSE]}
        found: dict[str, Any] = {"type": self.kind}
        if self.kind == "integer":
            found |= {"minimum": self.least, "maximum": self.most}
        if self.choices:
            found["enum"] = list(self.choices)
        return found


@dataclass(frozen=True, slots=True)
class ControlCall:
    """One request, checked as far as its route declares."""

    cluster: "ControlledCluster"
    place: Mapping[str, str]
    """The values of the names in the path."""
    query: Mapping[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: an object as JSON, a text, or lines that are sent as they arrive."""

    content: dict[str, Any] | str | AsyncIterator[bytes]
    status: int = 200
    kind: str = JSON


Handler = Callable[[ControlCall], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method and path, with its handler."""

    method: str
    path: str
    text: str
    answer: Handler
    query: tuple[Parameter, ...] = ()
    body: type | None = None
    """The type of the JSON body; None: no body."""
    is_open: bool = False
    """Whether undeclared parameters are passed to the handler, too."""
    ends_with_caller: bool = False
    """Whether the handler is cancelled when its caller closes the connection."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """By status: when this status is returned."""
    kind: str = JSON

    @property
    def places(self) -> list[str]:
        """The names of the placeholders in the path."""
        return _PLACE.findall(self.path)

    @property
    def plain_path(self) -> str:
        """The path for documentation: /dlq/{group}."""
        return _PLACE.sub(r"{\1}", self.path)

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of parameters. Raises: UsageError (an unknown parameter, an invalid value)."""
        known = {one.name: one for one in self.query}
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name in known:
                values[name] = known[name].read(text)
            elif self.is_open:
                values[name] = text
            else:
                raise UsageError(self._unknown(name, known))
        return values

    def _unknown(self, name: str, known: Iterable[str]) -> str:
        names = sorted(known)
        there = f"there are {', '.join(names)}" if names else "it takes no parameters"
        return f"{name[:SHOWN_CHARS_MAX]!r} is unknown here; {there}{did_you_mean(name, names)}"


def did_you_mean(said: str, known: Iterable[str]) -> str:
    """Return the hint at the end of an error, or "" if no known name is similar."""
    alike = get_close_matches(said[:SHOWN_CHARS_MAX], list(known), 1)
    return f": did you mean {alike[0]}?" if alike else ""


def read_body(body: bytes, wanted: type, forms: str = "") -> Any:
    """Decode a JSON body. `forms`: how it can be written, for the error. Raises: UsageError."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        words = str(error)
        if isinstance(error, msgspec.ValidationError) and (found := re.search(r"unknown field `(.*)`", words)):
            fields = msgspec.structs.fields(wanted) if issubclass(wanted, msgspec.Struct) else ()
            names = [one.encode_name for one in fields]
            words = f"{found[1]!r} is unknown here; there are {', '.join(names)}{did_you_mean(found[1], names)}"
        raise UsageError(f"the body can't be used: {words}{f'; {forms}' if forms else ''}") from None
