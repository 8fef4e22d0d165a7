"""Frames that nobody should send, and a peer that sends them. One seed: the same frames.

usage: python -m tests.integration.fuzzing [SECONDS [SEED]]     a longer run, with the memory of the processes
"""

import json
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from staticfire.cluster.cluster import Cluster
from staticfire.launch.plan import NAMESERVER
from staticfire.protocol import requests  # noqa: F401 (fills REQUESTS)
from staticfire.protocol.codecs import JSON, NATIVE, ROCKETMQ, codec_for
from staticfire.protocol.codes import OWN_CODES, RequestCode
from staticfire.protocol.command import REQUESTS, Declaration, Records
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from staticfire.runtime.addresses import parse_address

# From there on are those that move the clock and forget everything, which is no fault when it happens.

NAMESERVER_CODES = {*range(100, 107), 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904}

USUAL: dict[str, Any] = {
    "topic": "orders",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "consumer_group": "g",
    "group": "g",
    "subscription": "*",
    "expression_type": "TAG",
    "queue_id": 0,
    "queue_offset": 0,
    "sys_flag": 4,
    "flag": 0,
    "max_msg_nums": 32,
    "born_timestamp": 1_700_000_000_000,
    "properties": "TAGS\x01a\x02UNIQ_KEY\x01u\x02",
    "perm": 6,
    "read_queue_nums": 4,
    "write_queue_nums": 4,
    "topic_filter_type": "SINGLE_TAG",
    "attributes": None,
    "delay_level": 1,
    "offset": 0,
    "cluster_name": "DefaultCluster",
    "broker_name": "broker-z",
    "broker_addr": "127.0.0.1:10911",
    "broker_id": 0,
    "ha_server_addr": "127.0.0.1:10912",
}
"""What a field says nine times out of ten, so that requests get further than to their first check."""

TEXTS = [
    *("", "orders", "%RETRY%g", "%DLQ%g", "g", "a b", "é", "TBW102", "broker-a", "SCHEDULE_TOPIC_XXXX", "*", "a || b"),
    *("||", "UPPER", "TAG", "SQL92", "\x01\x02", "DELAY\x013\x02", "TAGS\x01a\x02UNIQ_KEY\x01u\x02", "x" * 300),
    *("+message.type=FIFO", "null", "-1", "1e400", "\ud800", "{}", "127.0.0.1:1"),
]
NUMBERS = [
    0,
    0,
    1,
    2,
    3,
    4,
    31,
    32,
    -1,
    127,
    128,
    255,
    256,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**63 - 1,
    2**63,
    -(2**63),
]
ROUND_FRAMES_MAX = 8
OPEN = {"authenticationEnabled": False, "authorizationEnabled": False}
"""So that a user which a frame happens to create locks nobody out."""
QUIET_S = 0.002
FIRST_S = 10.0
"""For the first bytes, or the end: nearly always it closes the connection, and a busy machine may take its time."""


class FrameMaker:
    """Makes frames from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        plain = [one for one in REQUESTS.values() if one.code not in OWN_CODES]
        self._all = [*plain, REQUESTS[RequestCode.SEND_MANY]]
        self._of_nameserver = [one for one in self._all if one.code in NAMESERVER_CODES]
        self._of_broker = [one for one in self._all if one.code not in NAMESERVER_CODES]
        self._likely = self._all

    def frames(self, name: str) -> bytes:
        """Return what a peer of the nameserver, or of the broker of that name, sends on one connection."""
        self._likely = self._of_nameserver if name == NAMESERVER else self._of_broker
        kind = self.random.random()
        if kind < 0.05:
            return self.random.randbytes(self.random.randrange(200))
        count = self.random.randint(1, ROUND_FRAMES_MAX)
        frames = [self._frame() for _ in range(count)]
        if kind < 0.6:
            index = self.random.randrange(count)
            frames[index] = self._mutated(frames[index])
        whole = b"".join(frames)
        return whole[: self.random.randrange(len(whole))] if kind > 0.95 else whole

    def _frame(self) -> bytes:
        declaration = self.random.choice(self._likely if self.random.random() < 0.95 else self._all)
        return self._json_frame(declaration) if self.random.random() < 0.5 else self._native_frame(declaration)

    def _json_frame(self, declaration: Declaration) -> bytes:
        names = declaration.request.names
        kinds = {field.name: field.type for field in msgspec.structs.fields(declaration.request.command)}
        fields = {wire: self._loose(name, kinds[name]) for name, wire in names.items() if self.random.random() < 0.98}
        header = {"code": declaration.code, "language": "JAVA", "version": 479, "opaque": 1, "flag": self._flag()}
        head = json.dumps({**header, "extFields": fields}).encode()
        body = self._body(declaration, lambda value: json.dumps(value, default=repr).encode())
        return struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body

    def _native_frame(self, declaration: Declaration) -> bytes:
        kinds = {field.name: field.type for field in msgspec.structs.fields(declaration.request.command)}
        values = [self._field(name, kinds[name]) for name in declaration.request.fields]
        try:
            fields = msgspec.msgpack.encode(values)
            body = self._body(declaration, msgspec.msgpack.encode)
        except (OverflowError, UnicodeEncodeError):
            return self._native_frame(declaration)
        head = (
            struct.pack(">BBIBIBBHBB", 0x97, 0xCE, declaration.code, 0xCE, 1, self._flag(), 0xCD, 479, 3, 0xC0) + fields
        )
        return struct.pack(">II", 4 + len(head) + len(body), 2 << 24 | len(head)) + head + body

    def _flag(self) -> int:
        return self.random.choice([0, 0, 0, 0, 0, 2, 2, 1])

    def _body(self, declaration: Declaration, encode: Any) -> bytes:
        kind = declaration.request.body_type
        if kind is bytes:
            return self._message_body()
        if self.random.random() < 0.1 or kind is Records:
            return self.random.randbytes(self.random.randrange(100))
        body: bytes = encode(self._plain(kind, 0))
        return body

    def _message_body(self) -> bytes:
        kind = self.random.random()
        if kind < 0.2:
            return b""
        if kind < 0.5:
            count = self.random.randrange(4)
            return encode_batch(
                BatchMessage(0, b"body", self.random.choice(TEXTS[:-3]).encode("utf-8", "replace"))
                for _ in range(count)
            )
        return self.random.randbytes(self.random.randrange(300))

    def _field(self, name: str, kind: Any) -> Any:
        return USUAL[name] if name in USUAL and self.random.random() < 0.9 else self._value(kind)

    def _loose(self, name: str, kind: Any) -> Any:
        """A field's value as foreign clients write it: usually text."""
        value = self._field(name, kind)
        if isinstance(value, bool):
            return self.random.choice([value, str(value).lower()])
        return str(value) if isinstance(value, int) and self.random.random() < 0.7 else value

    def _value(self, kind: Any) -> Any:
        return (
            self._plain(kind, 0) if self.random.random() < 0.97 else self.random.choice([None, "x", [], {}, 1.5, True])
        )

    def _plain(self, kind: Any, depth: int) -> Any:
        """A value of a type, as JSON and msgpack have it."""
        made = msgspec.inspect.type_info(kind) if not isinstance(kind, msgspec.inspect.Type) else kind
        inspect, choose = msgspec.inspect, self.random.choice
        if isinstance(made, inspect.UnionType):
            return self._plain(choose(made.types), depth)
        if isinstance(made, inspect.StrType):
            return choose(TEXTS)
        if isinstance(made, inspect.IntType):
            return choose(NUMBERS)
        if isinstance(made, inspect.BoolType):
            return choose([True, False])
        if isinstance(made, inspect.FloatType):
            return choose([0.0, -1.5, 1e300])
        if isinstance(made, inspect.BytesType):
            return choose(TEXTS).encode("utf-8", "replace")
        if isinstance(made, inspect.StructType):
            pairs = [(field.encode_name, self._plain(field.type, depth + 1)) for field in made.fields]
            return [value for _, value in pairs] if made.array_like else dict(pairs)
        if isinstance(made, inspect.DictType):
            return {str(self._plain(made.key_type, depth)): self._plain(made.value_type, depth + 1) for _ in range(2)}
        if isinstance(made, inspect.ListType):
            return [self._plain(made.item_type, depth + 1) for _ in range(self.random.randrange(4))]
        return None

    def _mutated(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(self.random.randint(1, 4)):
            at = (
                self.random.randrange(len(data))
                if self.random.random() < 0.5
                else self.random.randrange(min(len(data), 40))
            )
            kind = self.random.randrange(5)
            if kind == 0:
                data[at] ^= 1 << self.random.randrange(8)
            elif kind == 1:
                data[at] = self.random.choice([0, 1, 2, 0x7F, 0x80, 0xC0, 0xFF, 0x22, 0x7B])
            elif kind == 2:
                data[at:at] = self.random.randbytes(self.random.randint(1, 8))
            elif kind == 3 and len(data) > 12:
                del data[at : at + self.random.randint(1, 8)]
            else:
                data[at : at + 4] = struct.pack(
                    ">I", self.random.choice([0, 4, 0xFFFFFFFF, 16 << 20, len(data), 0x7FFFFFFF])
                )
        # Nearly always the length is right again, so that what is behind it is looked at.
        if len(data) >= 8 and self.random.random() < 0.8:
            data[:4] = struct.pack(">I", len(data) - 4)
        return bytes(data)


def answers(data: bytes) -> Iterator[int]:
    """Yield the codes of the frames that came back. Raises: ProtocolError when something else did."""
    at = 0
    while at < len(data):
        length, word = struct.unpack_from(">II", data, at)
        header = data[at + 8 : at + 8 + (word & 0xFFFFFF)]
        if word >> 24 not in (JSON, ROCKETMQ, NATIVE) or at + 4 + length > len(data):
            raise ProtocolError(f"the answer breaks off, or is no frame: {data[at : at + 60]!r}")
        yield codec_for(word >> 24).decode_envelope(header).code
        at += 4 + length


def attack(address: str, frames: bytes) -> bytes:
    """Send that on a connection of its own; return what comes back until it is quiet or closed."""
    with socket.create_connection(parse_address(address), timeout=60) as peer, selectors.DefaultSelector() as selector:
        selector.register(peer, selectors.EVENT_READ)
        with suppress(OSError):  # it may be closed while we are sending
            peer.sendall(frames)
            peer.shutdown(socket.SHUT_WR)
        received = b""
        with suppress(OSError):
            while selector.select(QUIET_S if received else FIRST_S) and (more := peer.recv(1 << 20)):
                received += more
        return received


class Bystander:
    """A connection that was there before, and asks for nothing unusual."""

    def __init__(self, address: str, code: int, fields: dict[str, Any], body: bytes = b"") -> None:
        self._socket = socket.create_connection(parse_address(address), timeout=60)
        head = json.dumps({"code": code, "opaque": 7, "version": 479, "extFields": fields}).encode()
        self._frame = struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body

    def ask(self) -> int:
        """Return the code of the answer."""
        return self.answer()[0]

    def answer(self) -> tuple[int, bytes]:
        """Return code and body of the answer."""
        self._socket.sendall(self._frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            more = self._socket.recv(1 << 20)
            assert more, "the connection of a bystander was closed"
            data += more
        [code] = answers(data)
        return code, data[8 + int.from_bytes(data[5:8], "big") :]

    def close(self) -> None:
        self._socket.close()


def ask(address: str, code: int, fields: dict[str, Any]) -> tuple[int, bytes]:
    """Ask once; return code and body of the answer."""
    asking = Bystander(address, code, fields)
    try:
        return asking.answer()
    finally:
        asking.close()


def own_mib(pid: int) -> float:
    """Return how much memory a process has of its own, without files: a library may be loaded at any frame."""
    _, resident, files, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    return (resident - files) * 4096 / (1 << 20)


def places_of(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return address and process id of everything that runs, by name."""
    processes = [cluster.nameserver, *(cluster.broker(name) for name in cluster.addresses)]
    return {process.name: {"address": process.address, "pid": process.pid} for process in processes}


def main(seconds: float, seed: int) -> None:
    with Cluster(isolation="process", settings=OPEN) as cluster:
        places = places_of(cluster)
        maker, begin, rounds, reported = FrameMaker(seed), time.monotonic(), 0, 0.0
        codes: dict[int, int] = {}
        while time.monotonic() < begin + seconds:
            for name, place in places.items():
                for code in answers(attack(place["address"], maker.frames(name))):
                    codes[code] = codes.get(code, 0) + 1
                rounds += 1
            if time.monotonic() > reported + 5:
                reported = time.monotonic()
                memory = {name: round(own_mib(place["pid"]), 1) for name, place in places.items()}
                print(
                    f"{reported - begin:5.0f} s  {rounds} connections  MiB {memory}  deaths {cluster.deaths}",
                    flush=True,
                )
        print("answers by code:", dict(sorted(codes.items())))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
