"""Whole inputs of the compiled functions: records, frames of sends, properties; and what is given beside them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from staticfire.protocol.checksums import crc32
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.protocol.codecs.hot_json import sent_parts
from staticfire.protocol.codecs.hot_native import sent_forms
from staticfire.protocol.command import Request
from staticfire.protocol.compiled import TakenSends, twin
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.message_ids import offset_id_prefix
from staticfire.protocol.names import HALF_TOPIC
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.transactions import EndTransaction
from tests.broker.two_brokers import IPV4, IPV6, PLAIN, UNIQUE_ID, many, one_of_many, sent

STORE_HOST, BORN_HOST = IPV4
TOPIC, QUEUE_ID, FIRST_OFFSET = pack_topic("orders"), 3, 7
HALF = PLAIN + "TRAN_MSG\x01true\x02PGROUP\x01shop\x02"
COMMIT, ROLLBACK = 8, 12
ADDED = b"MSG_REGION\x01r\x02CLUSTER\x01c\x02"
POSITION = 4_096
ROOM = POSITION, 1 << 24, 1 << 20
BODY_BYTES_MAX = 4_000
STORED_MS = 1_700_000_000_500
TIMEOUT_MS = 6_000
TAIL = slice(19, 25)
# Of a native frame, between opaque and fields.
HEAD_BYTES = 8
# Of a frame: its length, and that of its header.


class Callbacks(NamedTuple):
    """What the compiled functions call."""

    otherwise: Callable[..., Any]
    crc32: Callable[..., Any]
    find: Callable[..., Any]
    find_halves: Callable[..., Any]


Take: TypeAlias = Callable[[Any, Callbacks, Mapping[int, bytes] | None], TakenSends | None]
"""`take_native` or `take_json`."""


class NotPlain(ProtocolError):
    """What Python says of a record that is left to it."""


class Spot:
    """A queue that a message goes to."""


def _refuse(*_: object) -> bytes:
    raise NotPlain("left to Python")


SPOT = Spot()
USUAL = Callbacks(
    otherwise=_refuse,
    crc32=crc32,
    find=lambda topic, queue_id: None if queue_id < 0 else (SPOT, pack_topic(topic), 7),
    find_halves=lambda: (SPOT, pack_topic(HALF_TOPIC), 3),
)


def stored(properties: bytes, body: bytes, host: bytes = BORN_HOST) -> bytes:
    return pack_record(
        POSITION, QUEUE_ID, FIRST_OFFSET, STORED_MS, STORED_MS - 5, 0, 0, 0, 0, host, TOPIC, properties, body
    )


RECORDS = [stored(PLAIN.encode(), b"hello"), stored(b"", b"")]
ROW = stored(b"TAGS\x01a\x02TAGS\x01b\x02", b"") + stored(b"KEYS\x01k", b"y")
WITH_IPV6 = stored(b"KEYS\x01k\x02UNIQ_KEY\x01u", b"x" * 20, IPV6[1])
PROPERTY_TEXTS = [
    PLAIN.encode() + b"region\x01north\x02__BORNHOST\x0110.0.0.40:40000\x02",
    b"UNIQ_KEY\x01u\x02KEYS\x01" + b"a " * 90 + b"\x02u\x01v",
    b"".join(b"%c\x01v\x02" % (0x30 + number) for number in range(32)) + b"UNIQ_KEY\x01u",
]
_ANY_HEADER = json.loads(codec_for(JSON).encode_request(sent(body=b""), 1, False)[HEAD_BYTES:])


def frame(request: Request, codec: int, oneway: bool = False) -> bytes:
    return codec_for(codec).encode_request(request, 7, oneway)


def take_native(
    data: Any, callbacks: Callbacks = USUAL, recent: Mapping[int, bytes] | None = None
) -> TakenSends | None:
    """Have the twin take frames; `recent`: the half messages that it may end."""
    assert twin is not None
    halves = None if recent is None else ({**recent}, callbacks.find_halves, TIMEOUT_MS)
    return twin.take_native_sends(
        data, 0, len(data), _FORMS, ROOM, BODY_BYTES_MAX, STORED_MS, BORN_HOST, ADDED, callbacks.find, callbacks.crc32,
        halves, True,
    )  # fmt: skip


def take_json(data: Any, callbacks: Callbacks = USUAL, recent: Mapping[int, bytes] | None = None) -> TakenSends | None:
    """The same over JSON."""
    assert twin is not None
    halves = None if recent is None else ({**recent}, callbacks.find_halves, TIMEOUT_MS)
    return twin.take_json_sends(
        data, 0, len(data), _PARTS, ROOM, BODY_BYTES_MAX, STORED_MS, BORN_HOST, ADDED, callbacks.find, callbacks.crc32,
        halves, True,
    )  # fmt: skip


_PREFIX = offset_id_prefix(STORE_HOST)
_sent_forms = sent_forms("r", "true", _PREFIX)
assert _sent_forms is not None
_FORMS = (frame(sent(), NATIVE)[TAIL], *_sent_forms)
_PARTS = (
    str(_ANY_HEADER["language"]).encode(),
    int(_ANY_HEADER["version"]),
    sent_parts("r", "true", _PREFIX),
)


def kept_half() -> tuple[int, int, bytes]:
    """Return the queue offset of a half message, its log position, and its record as the twin has it kept."""
    taken = take_native(frame(sent(properties=HALF, sys_flag=4), NATIVE), recent={})
    assert taken is not None
    assert taken[3] is not None
    [(offset, (position, *_))] = taken[3][0].items()
    return offset, position, taken[3][1][position]


def end_of(offset: int, position: int, kind: int = COMMIT) -> EndTransaction:
    return EndTransaction("shop", offset, position, kind, False, UNIQUE_ID, UNIQUE_ID, "orders")


def send_frames(codec: int) -> list[bytes]:
    """Return frames that the twin takes, each kind of them, and two in one read."""
    requests: list[Request] = [sent(), sent(SendMessage), sent(properties=HALF, sys_flag=4)]
    if codec == NATIVE:
        requests.append(many(one_of_many(), one_of_many(topic="orders-2", body=b"x" * 300), one_of_many(queue_id=1)))
    frames = [frame(request, codec) for request in requests]
    return [*frames, frames[0] + frames[2]]
