"""What a gRPC client says, spoilt, and read as the endpoint reads it: HTTP/2, fields, messages."""

import random
from collections import Counter

from h2.config import H2Configuration
from h2.connection import H2Connection

from staticfire.proxy.transport import frames
from staticfire.proxy.transport.call_events import CallData
from staticfire.proxy.transport.calls import GrpcError
from staticfire.proxy.transport.frames import Http2Fault
from staticfire.proxy.transport.grpc_words import RequestReader
from staticfire.proxy.transport.http2 import Http2
from staticfire.proxy.transport.limits import TransportLimits
from tests.proxy.h2_client import OPEN, a_send, framed

LIMITS = TransportLimits(streams_max=4, connection_window_bytes=100_000, stream_window_bytes=70_000)


class Conversations:
    """Reads one after the other; whatever is raised that is no fault of the client's is the caller's to see."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._parts = conversation()
        self.seen: Counter[str] = Counter()

    def read(self) -> None:
        """Read a conversation, spoilt in another way each time."""
        said, http2 = spoilt(self._parts, self._chance), Http2(LIMITS)
        try:
            self._listen(said, http2)
        except Http2Fault as fault:
            self.seen[fault.code.name] += 1
        except GrpcError as error:
            self.seen[f"gRPC {error.status.name}"] += 1
        else:
            self.seen["fine"] += 1
        assert len(http2.streams) <= LIMITS.streams_max

    def _listen(self, said: bytes, http2: Http2) -> None:
        readers: dict[int, RequestReader] = {}
        while said:
            size = self._chance.choice([1, 9, 40, 4_000])
            for event in http2.receive(said[:size]):
                if isinstance(event, CallData):
                    readers.setdefault(event.stream.id, RequestReader(10_000)).feed(event.data)
                    http2.took(event.stream, len(event.data))
                    http2.outflow.answer(event.stream, framed(b"y" * 3_000))
                    http2.outflow.end(event.stream, b"\x88")
            http2.outflow.flush()
            said = said[size:]


def conversation() -> list[bytes]:
    """Return what a client sends, frame by frame."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    for number in range(1, 8, 2):
        client.send_headers(number, [(":path", f"/{number}"), *OPEN, ("x-mq-client-id", "é" * number)])
        client.send_data(number, framed(a_send(b"x" * 300)) * 2, end_stream=number % 4 == 1)
        client.ping(b"12345678")
        client.increment_flow_control_window(number)
    client.reset_stream(3)
    client.close_connection()
    said, parts = client.data_to_send(), [frames.PREFACE]
    position = len(frames.PREFACE)
    while position < len(said):
        end = position + 9 + int.from_bytes(said[position : position + 3], "big")
        parts.append(said[position:end])
        position = end
    return parts


def spoilt(parts: list[bytes], chance: random.Random) -> bytes:
    """Return a conversation with frames left out, doubled and exchanged, and bytes changed."""
    parts = list(parts)
    for _ in range(chance.randint(0, 3)):
        one, other = chance.randrange(1, len(parts)), chance.randrange(1, len(parts))
        match chance.randrange(4):
            case 0:
                parts[one], parts[other] = parts[other], parts[one]
            case 1:
                parts.insert(one, parts[other])
            case 2:
                parts[one] = b""
            case _:
                parts[one] = parts[one][: chance.randrange(len(parts[one]) + 1)]
    said = bytearray(b"".join(parts))
    for _ in range(chance.randint(0, 4)):
        said[chance.randrange(len(said))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return bytes(said)
