"""Message traces: which client sent or consumed which message, and when, as text in the bodies of messages. Pure.

RocketMQ: TraceDataEncoder, TraceView. Fields are separated by U+0001, records end with U+0002:

    Pub             time, region, group, topic, message id, tags, keys, store host, body bytes, cost ms, message type,
                    offset message id, success
    SubBefore       time, region, group, request id, message id, retry times, keys
    SubAfter        request id, message id, cost ms, success, keys, context code, time, group
    EndTransaction  time, region, group, topic, message id, tags, keys, store host, message type, transaction id, state,
                    whether a broker checked the transaction
    Recall          time, region, group, topic, message id, success

Programs that write fewer fields, such as older clients, leave out the last ones.
"""

from enum import IntEnum

import msgspec

FIELD_END, RECORD_END = "\x01", "\x02"
# The maximum length of a trace message's body. RocketMQ splits longer ones.
TEXT_CHARS_MAX = 128_000


class TracedType(IntEnum):
    """The kind of the message in a Pub record. RocketMQ: MessageType, by its ordinal."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


class PubTrace(msgspec.Struct, frozen=True):
    """A message was sent."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    body_bytes: int
    cost_ms: int
    kind: int
    offset_message_id: str = ""
    success: bool = True


class SubBeforeTrace(msgspec.Struct, frozen=True):
    """A listener was called."""

    time_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int = 0
    keys: str = ""


class SubAfterTrace(msgspec.Struct, frozen=True):
    """A listener has returned. `context_code`: 0 success, 1 time-out, 2 exception, 3 returned null, 4 failed."""

    request_id: str
    message_id: str
    cost_ms: int
    success: bool
    keys: str = ""
    context_code: int = 0
    time_ms: int = 0
    group: str = ""


class EndTransactionTrace(msgspec.Struct, frozen=True):
    """A transaction was ended."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    kind: int
    transaction_id: str
    state: str
    from_check: bool = False


class RecallTrace(msgspec.Struct, frozen=True):
    """A message was recalled."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    success: bool = True


Trace = PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace | RecallTrace

_KINDS: dict[str, type[Trace]] = {
    "Pub": PubTrace,
    "SubBefore": SubBeforeTrace,
    "SubAfter": SubAfterTrace,
    "EndTransaction": EndTransactionTrace,
    "Recall": RecallTrace,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode_trace(trace: Trace) -> str:
    """Return a record, including its end."""
    fields = [_NAMES[type(trace)], *(_text(getattr(trace, name)) for name in trace.__struct_fields__)]
    return FIELD_END.join(fields) + RECORD_END


def decode_traces(text: str) -> list[Trace]:
    """Return the records in a trace message's body; invalid ones are skipped."""
    found = []
    for line in text.split(RECORD_END):
        name, *fields = line.split(FIELD_END)
        kind = _KINDS.get(name)
        trace = None if kind is None else _read(kind, fields)
        if trace is not None:
            found.append(trace)
    return found


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace(FIELD_END, " ").replace(RECORD_END, " ")


def _read(kind: type[Trace], fields: list[str]) -> Trace | None:
    values: dict[str, object] = {}
    for field, text in zip(msgspec.structs.fields(kind), fields, strict=False):
        try:
            values[field.name] = _value(field.type, text)
        except ValueError:
            return None
    try:
        return kind(**values)  # type: ignore[arg-type]  # by name, and of the fields' types
    except TypeError:
        # A field that every client writes is missing.
        return None


def _value(kind: type, text: str) -> object:
    if kind is int:
        return int(text)
    return text == "true" if kind is bool else text
