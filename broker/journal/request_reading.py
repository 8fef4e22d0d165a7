"""Decode requests from the received data. Pure. It takes as long as decoding always takes, so a worker does it.

Each read is handled independently: its `unread_bytes` tell how much data of earlier reads belongs to its first frame. A
request is left out if it begins in a read that was already dropped.

The number of a request is the number of the read that completed it, times 65,536, plus its index among the requests of
that read. So numbers increase, with gaps.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from staticfire.broker.journal.reading import Source
from staticfire.broker.journal.received import ReceivedRead
from staticfire.broker.journal.ring import NotedChunk
from staticfire.protocol.codecs import ANSWER_FLAG, ONEWAY_FLAG, Codec, Envelope, codec_for
from staticfire.protocol.codes import RequestCode, name_of_request
from staticfire.protocol.command import REQUESTS, Declaration, Request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.requests.journal import REQUEST, JournalRecord
from staticfire.protocol.requests.send import ManyMessage
from staticfire.runtime.ranges import HIDDEN

PLACES = 65_536
HEAD_BYTES = 8
# The requests by which a user reads the journal or the fault rules are left out.
NOT_SHOWN = frozenset({RequestCode.GET_JOURNAL, RequestCode.GET_FAULTS})
# Requests whose bodies have a user's secret, or a signature that another client could repeat.
SECRET_BODIES = frozenset({RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.JUDGE_CALL})
SECRET_FIELDS = frozenset({"signature", "securityToken", "secretKey"})
# The limit for a body that is shown; of a longer one only the size is shown.
BODY_BYTES_MAX = 65_536

_NOT_FIELDS = frozenset({"code", "remark", "body"})
_GROUPS = ("consumerGroup", "group", "producerGroup", "groupName")
_OFFSETS = ("queueOffset", "commitOffset", "offset")


class Reads(msgspec.Struct):
    """The reads that were available at one moment."""

    chunks: list[NotedChunk]
    lengths: list[int]

    @classmethod
    def of(cls, chunks: list[NotedChunk]) -> "Reads":
        """Remember how many reads there are: more may be added while these are handled."""
        return cls(chunks, [len(chunk.entries) for chunk in chunks])

    @property
    def next_number(self) -> int:
        """The number after the last read."""
        return self.chunks[-1].first_number + self.lengths[-1]

    def from_number(self, number: int) -> Iterator[tuple[int, ReceivedRead, NotedChunk]]:
        """Yield number, read and chunk of each read from a number on."""
        for chunk, length in zip(self.chunks, self.lengths, strict=True):
            for index in range(max(0, number - chunk.first_number), length):
                yield chunk.first_number + index, chunk.entries[index], chunk

    def before(self, number: int, address: str) -> Iterator[bytes]:
        """Yield the data that a connection received before a read, newest first."""
        for chunk in reversed(self.chunks):
            for index in range(min(number - chunk.first_number, len(chunk.entries)) - 1, -1, -1):
                read: ReceivedRead = chunk.entries[index]
                if read.peer.address == address:
                    yield read.data


class RequestReading:
    """Decodes the requests of successive reads."""

    def __init__(self, reads: Reads, source: Source, names: Collection[str]) -> None:
        """`names`: the names of the request codes that are decoded; empty: all."""
        self._reads = reads
        self._source = source
        self._names = names
        # By address, the incomplete frame at the end of the last decoded read: most reads continue it.
        self._tails: dict[str, bytes] = {}

    def requests_in(
        self, number: int, read: ReceivedRead, chunk: NotedChunk
    ) -> Iterator[tuple[int, JournalRecord | None]]:
        """Yield the number of each request that was completed by a read, and the request if its code is wanted."""
        begin = self._begin_of(number, read)
        if begin is None:
            return
        frames, tail = split_frames(begin, read.data)
        self._tails[read.peer.address] = tail
        place = 0
        for frame in frames:
            head = _head_of(frame)
            if head is None:
                continue
            request_number = number * PLACES + place
            place += 1
            if self._is_decoded(head.envelope.code):
                yield request_number, _request(frame, head, read, request_number, chunk, self._source)
            else:
                yield request_number, None

    def _is_decoded(self, code: int) -> bool:
        # A heartbeat names the client of its connection.
        return not self._names or name_of_request(code) in self._names or code == RequestCode.HEART_BEAT

    def _begin_of(self, number: int, read: ReceivedRead) -> bytes | None:
        """Return the unread bytes before a read; None if they were dropped."""
        missing = read.unread_bytes
        if not missing:
            return b""
        tail = self._tails.get(read.peer.address, b"")
        if len(tail) == missing:
            return tail
        parts = []
        for data in self._reads.before(number, read.peer.address):
            parts.append(data[-missing:])
            missing -= len(parts[-1])
            if not missing:
                return b"".join(reversed(parts))
        return None


def split_frames(begin: bytes, data: bytes) -> tuple[list[bytes], bytes]:
    """Return the frames that end in `data`, and the rest after them. Frames that end in `begin` are skipped."""
    stream, at, frames = begin + data, 0, []
    while len(stream) - at >= HEAD_BYTES:
        stop = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        if stop > len(stream) or stop - at < HEAD_BYTES:
            break
        if stop > len(begin):
            frames.append(stream[at:stop])
        at = stop
    return frames, stream[at:]


class FrameHead(NamedTuple):
    """The start of a request's frame."""

    codec: Codec
    envelope: Envelope
    body_at: int


def _head_of(frame: bytes) -> FrameHead | None:
    """Return the head of a request that is shown; None for a response, and for data that is no frame."""
    word = int.from_bytes(frame[4:8], "big")
    body_at = HEAD_BYTES + (word & 0xFFFFFF)
    try:
        codec = codec_for(word >> 24)
        envelope = codec.decode_envelope(frame[HEAD_BYTES:body_at])
    except ProtocolError:
        return None
    is_hidden = envelope.flag & ANSWER_FLAG or envelope.code in NOT_SHOWN
    return None if is_hidden else FrameHead(codec, envelope, body_at)


def _request(
    frame: bytes, head: FrameHead, read: ReceivedRead, number: int, chunk: NotedChunk, source: Source
) -> JournalRecord:
    """Return the record of a request."""
    codec, envelope, body_at = head
    details: dict[str, Any] = {"code": name_of_request(envelope.code)}
    fields: dict[str, Any] = {}
    body: Any = None
    body_bytes = len(frame) - body_at
    declaration = REQUESTS.get(envelope.code)
    try:
        if declaration is None:
            raise ProtocolError("unknown request code")
        request = codec.decode_request(declaration, envelope, frame[body_at:])
        fields = fields_of(request, declaration)
        body = HIDDEN if envelope.code in SECRET_BODIES else _shown_body(request.body, body_bytes)
        fields |= dict.fromkeys(fields.keys() & SECRET_FIELDS, HIDDEN)
    except ProtocolError as error:
        details["error"] = str(error)
    details["fields"] = fields
    if body_bytes:
        details["bodyBytes"] = body_bytes
    if body is not None:
        details["body"] = body
    if envelope.flag & ONEWAY_FLAG:
        details["oneway"] = True
    return _record(details, read, number, chunk, source)


def _record(
    details: dict[str, Any], read: ReceivedRead, number: int, chunk: NotedChunk, source: Source
) -> JournalRecord:
    fields, body = details["fields"], details.get("body")
    client, address = read.client_id, read.peer.address
    if client is None and isinstance(body, dict) and body.get("clientID"):
        source.names[address] = body["clientID"]  # The first heartbeat names the client of its connection.
    if isinstance(body, list) and body and isinstance(body[0], dict) and "topic" in body[0]:
        fields.setdefault("topic", body[0]["topic"])  # A SEND_MANY is shown with the topic of its first message.
    details["address"] = address
    real_ms = source.real_ms(read.uptime_ns)
    offsets = (fields[name] for name in _OFFSETS if fields.get(name) is not None)
    queue_id = fields.get("queueId")
    return JournalRecord(
        number, source.broker, REQUEST, chunk.face.at(real_ms), real_ms, client or source.names.get(address, address),
        next((str(fields[name]) for name in _GROUPS if fields.get(name)), ""), str(fields.get("topic") or ""),
        -1 if queue_id is None else queue_id, next(offsets, -1), details,
    )  # fmt: skip


def fields_of(request: Request, declaration: Declaration) -> dict[str, Any]:
    """Return the header fields of a request under RocketMQ's names, without those that were left out."""
    command = declaration.request.command  # A V2 send has single letters as names of fields.
    names = zip(command.__struct_fields__, command.__struct_encode_fields__, strict=True)
    values = {wire: getattr(request, name) for name, wire in names if name not in _NOT_FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def _shown_body(body: Any, body_bytes: int) -> Any:
    """Return a body in plain values; None for bytes, records, and a body that is too long."""
    if isinstance(body, list) and body and isinstance(body[0], ManyMessage):
        return _shown_messages(body)
    if body is None or isinstance(body, bytes) or body_bytes > BODY_BYTES_MAX:
        return None
    try:
        return msgspec.to_builtins(body, str_keys=True)
    except TypeError:
        return None


def _shown_messages(messages: Sequence[ManyMessage]) -> list[dict[str, Any]]:
    """Return the messages of a SEND_MANY, with the sizes of their bodies."""
    return [
        {
            "topic": one.topic,
            "queueId": one.queue_id,
            "properties": one.properties.decode("utf-8", "replace"),
            "bodyBytes": len(one.body),
        }
        for one in messages
    ]
