"""Transactions per second beside plain sends: 64 under way on one connection, each a half message and its commit.

What the half's answer says goes into the commit, so frames can't be prepared as for other loads: the generator takes 10
to 15 us for each transaction, on a core of its own.
"""

import socket
import time
from collections.abc import Iterator
from struct import Struct

from benchmarks import frames
from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS, send_ring, settled
from benchmarks.load import ANSWER_S_MAX, BUFFER_BYTES, LoadConnection, UnexpectedAnswerError, run_window
from benchmarks.machine import Meter
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import ANSWER_FLAG, NATIVE, codec_for
from staticfire.protocol.command import declaration_of
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.send import SendAnswer, SendMessageV2
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind

WINDOW = 64
GROUP = "bench"
HALF = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
COMMITS_FROM = 1 << 20
# The numbers of commits: an answer to one is only counted.
_head = Struct(">II").unpack_from


class Transactions:
    """transactions: half messages and commits per second, the broker's CPU time of one, and beside plain sends."""

    name = "transactions"
    keys = ("transactions_per_s", "transactions_x_sends", "transactions_cpu_us")

    def measure(self, stand: Stand) -> Values:
        with broker(stand.folder) as server:
            plain = LoadConnection(server.port, NATIVE, send_ring(NATIVE))
            run_window(server, [plain], WINDOW, WARM_SECONDS)
            sends = run_window(server, [plain], WINDOW, stand.seconds)
            plain.close()
            before = settled(server.port, NATIVE)
            load = TransactionLoad(server)
            load.run(WARM_SECONDS)
            warm = load.done
            meter = Meter(*server.pids)
            load.run(stand.seconds)
            meter.stop()
            load.close()
            done = load.done - warm
            if settled(server.port, NATIVE) - before != load.done:
                raise SystemExit(f"bench: transactions: {load.done} were committed, another number is stored")
        cpu_us = meter.server_s * 1e6 / done
        return {
            "transactions_per_s": done / meter.seconds,
            "transactions_x_sends": done / meter.seconds / sends.per_s,
            "transactions_cpu_us": cpu_us,
            "transactions_x_sends_cpu": sends.cpu_us_per_answer / cpu_us,
            "transactions_foreign": meter.foreign_cores,
        }


class TransactionLoad:
    """One connection with transactions under way."""

    def __init__(self, server: ServerProcess) -> None:
        ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(ANSWER_S_MAX)
        self._codec = codec_for(NATIVE)
        self._answer = declaration_of(SendMessageV2).answer
        self._halves = frames.sends(NATIVE, TOPIC, WINDOW, more=HALF)
        self._buffer = bytearray()
        self.done = 0
        """Committed and answered."""

    def run(self, seconds: float) -> None:
        """Keep transactions under way for so long, and end all of them. Raises: UnexpectedAnswerError."""
        end = time.perf_counter() + seconds
        under_way = WINDOW
        self._socket.sendall(b"".join(self._halves))
        while under_way:
            out: list[bytes] = []
            goes_on = time.perf_counter() < end
            for number, payload, header_bytes in self._answers():
                if number >= COMMITS_FROM:
                    self.done += 1
                    if goes_on:
                        out.append(self._halves[number - COMMITS_FROM])
                    else:
                        under_way -= 1
                else:
                    out.append(self._commit(number, payload, header_bytes))
            self._socket.sendall(b"".join(out))

    def _answers(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the answers of one read: number of the request, what it says, and how much of that is the header."""
        self._buffer += self._socket.recv(BUFFER_BYTES)
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 8:
            length, word = _head(buffer, at)
            if len(buffer) - at < 4 + length:
                break
            payload, header_bytes = bytes(buffer[at + 8 : at + 4 + length]), word & 0xFFFFFF
            at += 4 + length
            envelope = self._codec.decode_envelope(payload[:header_bytes])
            if envelope.code:
                raise UnexpectedAnswerError(f"{envelope.code}: {envelope.remark}")
            if envelope.flag & ANSWER_FLAG:
                yield envelope.opaque, payload, header_bytes
        del buffer[:at]

    def _commit(self, number: int, payload: bytes, header_bytes: int) -> bytes:
        envelope = self._codec.decode_envelope(payload[:header_bytes])
        sent = self._codec.decode_answer(self._answer, envelope, payload[header_bytes:])
        assert isinstance(sent, SendAnswer)
        position = parse_offset_id(sent.msg_id or "")[1]
        commit = EndTransaction(GROUP, sent.queue_offset or 0, position, int(TransactionKind.COMMIT))
        return self._codec.encode_request(commit, COMMITS_FROM + number, False)

    def close(self) -> None:
        self._socket.close()
