"""Transactions per second, and plain sends: 64 in flight on one connection, each a half message and its commit.

A commit contains values from the response to its half message, so frames can't be prepared completely as for other
loads: two numbers of each commit are put into a prepared frame. The generator, on its own core, needs 3 us per
transaction.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from struct import Struct

from benchmarks import frames
from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import TOPIC, WARM_SECONDS, send_ring, settled
from benchmarks.load import ANSWER_S_MAX, BUFFER_BYTES, HEAD_BYTES, LoadConnection, UnexpectedAnswerError, run_window
from benchmarks.machine import Meter
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import ANSWER_FLAG, NATIVE, Codec, codec_for
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.sys_flag import TransactionKind

WINDOW = 64
GROUP = "bench"
HALF = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
# The first request number of commits. Responses to commits are only counted.
COMMITS_FROM = 1 << 20
_head = Struct(">II").unpack_from
# Length, codec and header length, an array of 7, a number: code, a number: opaque, flag (hot_native.py describes them).
_answer_head = Struct(">IIBBIBIB").unpack_from
# Of the response to a half message: its minimum length, and the positions in it of the record's log position, which is
# in the message id, and of the queue offset.
_SENT_BYTES_MIN, _POSITION_AT, _OFFSET_AT = 108, 44, 66
# A number that is encoded with all nine bytes.
_WIDE = 1 << 60


class Transactions:
    """transactions: half messages and commits per second, the broker's CPU time, and both compared with plain sends."""

    name = "transactions"
    keys = ("transactions_per_s", "transactions_x_sends", "transactions_cpu_us", "transactions_x_sends_cpu")

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
    """One connection with transactions in flight."""

    def __init__(self, server: ServerProcess) -> None:
        ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(ANSWER_S_MAX)
        self._codec = codec_for(NATIVE)
        self._commit = _commit_form(self._codec)
        self._halves = frames.sends(NATIVE, TOPIC, WINDOW, more=HALF)
        self._buffer = bytearray()
        self.done = 0
        """The number of committed transactions with a response."""

    def run(self, seconds: float) -> None:
        """Keep transactions in flight for that long, then finish all of them. Raises: UnexpectedAnswerError."""
        end = time.perf_counter() + seconds
        under_way = WINDOW
        self._socket.sendall(b"".join(self._halves))
        while under_way:
            out: list[bytes] = []
            goes_on = time.perf_counter() < end
            for number, sent in self._answers():
                if sent is None:
                    self.done += 1
                    if goes_on:
                        out.append(self._halves[number - COMMITS_FROM])
                    else:
                        under_way -= 1
                else:
                    out.append(self._commit(number, *sent))
            self._socket.sendall(b"".join(out))

    def _answers(self) -> Iterator[tuple[int, tuple[bytes, int] | None]]:
        """Yield the responses of one read: request number, and for a half message its queue offset and log position."""
        self._buffer += self._socket.recv(BUFFER_BYTES)
        buffer, at = self._buffer, 0
        while len(buffer) - at >= HEAD_BYTES:
            length, _, _, _, code, _, number, flag = _answer_head(buffer, at)
            if len(buffer) - at < 4 + length:
                break
            if code:
                raise UnexpectedAnswerError(f"{code}: {bytes(buffer[at : at + 300])!r}")
            if flag & ANSWER_FLAG:
                sent = None
                if number < COMMITS_FROM:
                    assert length >= _SENT_BYTES_MIN
                    offset_at, position_at = at + _OFFSET_AT, at + _POSITION_AT
                    sent = bytes(buffer[offset_at : offset_at + 8]), int(buffer[position_at : position_at + 16], 16)
                yield number, sent
            at += 4 + length
        del buffer[:at]

    def close(self) -> None:
        self._socket.close()


def _commit_form(codec: Codec) -> Callable[[int, bytes, int], bytes]:
    """Return a function that makes a commit from a half message's number, encoded queue offset, and log position."""
    frame = codec.encode_request(
        EndTransaction(GROUP, _WIDE, _WIDE + 1, int(TransactionKind.COMMIT)), _WIDE >> 40, False
    )
    start, between, end = re.split(b"|".join((_WIDE + more).to_bytes(8, "big") for more in (0, 1)), frame)
    opaque = (_WIDE >> 40).to_bytes(4, "big")
    before, after = start.split(opaque)
    return lambda number, offset, position: b"".join(
        (before, (COMMITS_FROM + number).to_bytes(4, "big"), after, offset, between, position.to_bytes(8, "big"), end)
    )
