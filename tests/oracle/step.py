"""What a script consists of: requests, as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Reads = Literal["json", "records", "bytes"]
Server = Literal["broker", "nameserver"]
Value = str | int | float | bool | None


@dataclass(frozen=True)
class Ask:
    """One request, and how its answer is read.

    Texts may hold `{run}`, which is different in every run, and what earlier answers were asked to `keep`: {name: what}
    where `what` is a field of the answer, or "position", the log position in its msgId.
    """

    name: str
    code: int
    fields: Mapping[str, Value] | None = field(default_factory=dict)
    body: object = b""
    """bytes, or what is written as JSON."""
    to: Server = "broker"
    over: str = "main"
    """The name of the connection: it is opened when it is first used."""
    header: Mapping[str, Value] = field(default_factory=dict)
    """What else than usual stands in the header."""
    keep: Mapping[str, str] = field(default_factory=dict)
    reads: Reads = "json"
    later: bool = False
    """The answer is not waited for: a `Fetch` takes it."""
    apart: tuple[str, ...] = ()
    """Fields of the answer that aren't compared: they depend on what was accepted before."""
    reported: bool = False
    """Compare also what the server asked on that connection before it answered."""


@dataclass(frozen=True)
class Fetch:
    """The answer to an earlier request."""

    name: str
    of: str
    reads: Reads = "records"
    over: str = "main"


@dataclass(frozen=True)
class Raw:
    """Bytes as they are. Compared: the code of what comes back, or that the connection is closed or stays silent."""

    name: str
    data: bytes
    to: Server = "broker"


@dataclass(frozen=True)
class Close:
    """Close a connection."""

    over: str
    name: str = "close"


@dataclass(frozen=True)
class Pause:
    """Let pass what a server does in the background."""

    ms: int
    name: str = "pause"


@dataclass(frozen=True)
class Dispatched:
    """Wait until consumers can have what was sent to a queue: RocketMQ enters it behind the answer to the send."""

    topic: str
    end: int
    """Where the queue ends then."""
    queue_id: int = 0
    name: str = "dispatched"


Step = Ask | Fetch | Raw | Close | Pause | Dispatched


def without_each(base: Ask, among: Sequence[str] | None = None) -> Iterator[Ask]:
    """Yield a request once without each of its fields."""
    assert base.fields is not None
    for key in base.fields if among is None else among:
        fields = {name: value for name, value in base.fields.items() if name != key}
        yield replace(base, name=f"{base.name} without {key}", fields=fields, keep={})


def with_each(base: Ask, values: Sequence[Value], among: Sequence[str]) -> Iterator[Ask]:
    """Yield a request once with each of these values in each of these fields."""
    for key in among:
        for value in values:
            fields = {**(base.fields or {}), key: value}
            yield replace(base, name=f"{base.name} with {key}={value!r}", fields=fields, keep={})
