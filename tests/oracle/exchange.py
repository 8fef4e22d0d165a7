"""Plays a script against one cluster, over plain sockets and with a JSON writer of its own."""

import json
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from staticfire.protocol import fastjson
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.message_ids import parse_offset_id
from tests.oracle.step import Ask, Close, Dispatched, Fetch, Pause, Raw, Reads, Step

TIMEOUT_S = 20
SILENT_S = 1.0
LATE_S = 0.25
DISPATCH_PAUSE_S = 0.02
ANSWER_FLAG = 1
JSON = 0

CLOSED, SILENT = "the connection was closed", "nothing came back"


@dataclass
class Reply:
    """What came back: an answer, or how there was none. `told`: request codes that came before it."""

    code: int | str
    remark: str | None = None
    fields: Mapping[str, Any] | None = None
    body: bytes = b""
    reads: Reads = "bytes"
    reported: list[int] = field(default_factory=list)
    apart: tuple[str, ...] = ()
    codec: int = JSON


class Line:
    """One connection: requests out, answers in by their number, the server's own requests in a list."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._data = b""
        self._opaque = 0
        self._answers: dict[int, Reply] = {}
        self.reported: list[int] = []

    def send(self, code: int, fields: Mapping[str, Any] | None, body: bytes, header: Mapping[str, Any]) -> int:
        self._opaque += 1
        whole = {"code": code, "language": "JAVA", "version": 479, "opaque": self._opaque, "flag": 0}
        whole |= {"serializeTypeCurrentRPC": "JSON"}
        if fields is not None:
            whole["extFields"] = fields
        head = json.dumps({**whole, **header}).encode()
        self.socket.sendall(struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body)
        return self._opaque

    def answer(self, opaque: int, timeout_s: float = TIMEOUT_S) -> Reply:
        """Wait for one answer."""
        deadline_s = time.monotonic() + timeout_s
        while opaque not in self._answers:
            ended = self._read(deadline_s - time.monotonic())
            if ended is not None:
                return Reply(ended)
        return self._answers.pop(opaque)

    def any_reply(self, timeout_s: float) -> Reply:
        """Wait for whatever comes. A machine that stops this process stops the server, too: then it has time again."""
        began_s = time.monotonic()
        reply = self._next_reply(timeout_s)
        was_stopped = time.monotonic() - began_s > timeout_s + LATE_S
        return self._next_reply(timeout_s) if reply.code == SILENT and was_stopped else reply

    def _next_reply(self, timeout_s: float) -> Reply:
        deadline_s = time.monotonic() + timeout_s
        while not self._answers:
            ended = self._read(deadline_s - time.monotonic())
            if ended is not None:
                return Reply(ended)
        return self._answers.popitem()[1]

    def _read(self, timeout_s: float) -> str | None:
        """Take in what comes next; return how it ended when it did."""
        try:
            self.socket.settimeout(max(timeout_s, 0.001))
            more = self.socket.recv(1 << 20)
        except TimeoutError:
            return SILENT
        except OSError:
            return CLOSED
        if not more:
            return CLOSED
        self._data += more
        while len(self._data) >= 8:
            size, word = struct.unpack_from(">II", self._data)
            if len(self._data) < 4 + size:
                break
            body_at = 8 + (word & 0xFFFFFF)
            self._take(word >> 24, self._data[8:body_at], self._data[body_at : 4 + size])
            self._data = self._data[4 + size :]
        return None

    def _take(self, codec: int, head: bytes, body: bytes) -> None:
        header = json.loads(head) if codec == JSON else read_binary(head)
        if header.get("flag", 0) & ANSWER_FLAG:
            reported, self.reported = self.reported, []
            fields = header.get("extFields")
            reply = Reply(header["code"], header.get("remark"), fields, body, reported=reported, codec=codec)
            self._answers[header["opaque"]] = reply
        else:
            self.reported.append(header["code"])


class Side:
    """One of the two clusters, with everything that the script has learnt from it."""

    def __init__(self, nameserver: str, broker: str, run: str) -> None:
        self._addresses = {"nameserver": nameserver, "broker": broker}
        self.values = {"run": run, "broker": broker, "nameserver": nameserver}
        self._lines: dict[tuple[str, str], Line] = {}
        self._later: dict[str, tuple[Line, int]] = {}

    def play(self, steps: Iterable[Step]) -> dict[str, Reply]:
        """Play a script to its end; return the replies by the steps' names."""
        replies: dict[str, Reply] = {}
        for step in steps:
            reply = self._step(step)
            if reply is not None:
                assert step.name not in replies, f"two steps are called {step.name}"
                replies[step.name] = reply
        for line in self._lines.values():
            line.socket.close()
        return replies

    def _step(self, step: Step) -> Reply | None:
        if isinstance(step, Ask):
            return self._ask(step)
        if isinstance(step, Fetch):
            line, opaque = self._later.pop(step.of)
            return self._settled(line.answer(opaque), step.reads)
        if isinstance(step, Raw):
            line = Line(self._addresses[step.to])
            line.socket.sendall(step.data)
            reply = line.any_reply(SILENT_S)
            line.socket.close()
            return reply
        if isinstance(step, Close):
            for key in [key for key in self._lines if key[1] == step.over]:
                self._lines.pop(key).socket.close()
            return None
        if isinstance(step, Dispatched):
            self._wait_for(step)
            return None
        assert isinstance(step, Pause)
        time.sleep(step.ms / 1000)  # house: a real RocketMQ lives in wall time
        return None

    def _wait_for(self, step: Dispatched) -> None:
        fields = {"topic": step.topic, "queueId": str(step.queue_id)}
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            reply = self._ask(Ask(step.name, RequestCode.GET_MAX_OFFSET, fields))
            if reply is not None and reply.fields is not None and int(reply.fields.get("offset", -1)) >= step.end:
                return
            assert time.monotonic() < until_s, f"{step.topic}/{step.queue_id} ends at {reply}, not at {step.end}"
            time.sleep(DISPATCH_PAUSE_S)  # house: a real RocketMQ lives in wall time

    def _ask(self, step: Ask) -> Reply | None:
        key = (step.to, step.over)
        if key not in self._lines:
            self._lines[key] = Line(self._addresses[step.to])
        line = self._lines[key]
        fields = None if step.fields is None else {name: self._filled(value) for name, value in step.fields.items()}
        body = step.body if isinstance(step.body, bytes) else json.dumps(self._filled(step.body)).encode()
        opaque = line.send(step.code, fields, body, step.header)
        if step.later:
            self._later[step.name] = (line, opaque)
            return None
        one_way = int(step.header.get("flag") or 0) & 2
        reply = self._settled(line.answer(opaque, SILENT_S if one_way else TIMEOUT_S), step.reads)
        if not step.reported:
            reply.reported = []
        reply.apart = step.apart
        if reply.code == CLOSED:
            del self._lines[key]
        for name, what in step.keep.items():
            self.values[name] = self._kept(reply, what)
        return reply

    def _settled(self, reply: Reply, reads: Reads) -> Reply:
        reply.reads = reads
        return reply

    def _kept(self, reply: Reply, what: str) -> str:
        fields = reply.fields or {}
        if what == "position":
            return str(parse_offset_id(fields["msgId"])[1]) if "msgId" in fields else "-1"
        return str(fields.get(what))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, text in self.values.items():
                value = value.replace("{" + name + "}", text)
            return value
        if isinstance(value, dict):
            return {self._filled(key): self._filled(item) for key, item in value.items()}
        return [self._filled(item) for item in value] if isinstance(value, list) else value


def read_binary(head: bytes) -> dict[str, Any]:
    """Return a header in RocketMQ's own binary form as if it were JSON. RocketMQ: RocketMQSerializable."""
    code, _, version, opaque, flag, remark_size = struct.unpack_from(">hbhiii", head)
    at = 17 + remark_size
    (fields_end,) = (at + 4 + size for size in struct.unpack_from(">i", head, at))
    remark = head[17:at].decode() if remark_size else None
    fields, at = {}, at + 4
    while at < fields_end:
        (size,) = struct.unpack_from(">h", head, at)
        name, at = head[at + 2 : at + 2 + size].decode(), at + 2 + size
        (size,) = struct.unpack_from(">i", head, at)
        fields[name], at = head[at + 4 : at + 4 + size].decode(), at + 4 + size
    return {"code": code, "version": version, "opaque": opaque, "flag": flag, "remark": remark, "extFields": fields}


def read_json(body: bytes) -> Any:
    """Return the value of a JSON body, or a word about what it is instead."""
    try:
        return fastjson.decode(body)
    except ProtocolError:
        return f"{len(body)} bytes that are no JSON"
