"""The load generator: blocking sockets, prepared frames, a fixed number of requests in flight per connection.

Every response is counted as a complete frame, and its code is checked: an error code ends the bench. On its core the
generator is fast enough for a server that needs more than about a microsecond per response.
"""

import gc
import select
import socket
import time
from dataclasses import dataclass, field
from struct import Struct

from benchmarks.machine import Meter
from benchmarks.servers import ServerProcess
from staticfire.protocol.codecs import ANSWER_FLAG, JSON

BUFFER_BYTES = 1024 * 1024
SOCKET_BYTES = 1024 * 1024
ANSWER_S_MAX = 10
# A frame's length, its codec word, the code in both codecs, and in the native one the flag that marks a response.
HEAD_BYTES = 20

_native_head = Struct(">I6xI5xB").unpack_from
_length = Struct(">I").unpack_from
_JSON_SUCCESS = b'{"code":0,'


class UnexpectedAnswerError(Exception):
    """The server returned an error, or the stream is broken."""


class LoadConnection:
    """One connection with requests in flight."""

    def __init__(self, port: int, codec: int, ring: list[bytes], start: int = 0) -> None:
        """`start`: the first frame of the ring to send, so that not all connections send the same frames."""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        self.socket.settimeout(ANSWER_S_MAX)
        self._is_json = codec == JSON
        self.frames = len(ring)
        # The ring twice in a row: any number of frames, up to a whole ring, is one slice.
        self._starts = [0]
        for frame in ring + ring:
            self._starts.append(self._starts[-1] + len(frame))
        self._ring = memoryview(b"".join(ring + ring))
        self._next = start % len(ring)
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        # The number of bytes at the start of the buffer that are less than a response's head.
        self._kept = 0
        # The number of missing bytes of a frame whose head was read.
        self._missing = 0
        # Whether that frame is a response. In the native codec, requests of the broker itself are skipped.
        self._counts = 1
        self.in_flight = 0
        self.answer_bytes = 0
        """The size of the last response."""

    def send(self, count: int) -> None:
        """Send the next frames of the ring."""
        while count:
            now = min(count, self.frames)
            at = self._next
            self.socket.sendall(self._ring[self._starts[at] : self._starts[at + now]])
            self._next = (at + now) % self.frames
            self.in_flight += now
            count -= now

    def receive(self) -> int:
        """Wait for data; return the number of responses that it completed.

        Raises: UnexpectedAnswerError, TimeoutError.
        """
        got = self.socket.recv_into(self._view[self._kept :])
        if not got:
            raise UnexpectedAnswerError("the server closed the connection; its last words are on stderr")
        end = self._kept + got
        at = self._missing
        if at > end:
            self._missing = at - end
            self._kept = 0
            return 0
        counts = self._counts
        answers = counts if at else 0
        buffer, is_json, length = self._buffer, self._is_json, 0
        while end - at >= HEAD_BYTES:
            if is_json:
                length = _length(buffer, at)[0]
                success = buffer[at + 8 : at + 18] == _JSON_SUCCESS
            else:
                length, code, flag = _native_head(buffer, at)
                counts = flag & ANSWER_FLAG
                success = code == 0 or not counts
            if not success:
                raise UnexpectedAnswerError(f"not the answer that was expected: {bytes(buffer[at : at + 300])!r}")
            at += 4 + length
            answers += counts
        if length:
            self.answer_bytes = 4 + length
        self._counts = counts
        if at > end:
            answers -= counts
            self._missing = at - end
            self._kept = 0
        else:
            self._missing = 0
            self._kept = end - at
            buffer[: self._kept] = buffer[at:end]
        self.in_flight -= answers
        return answers

    def close(self) -> None:
        self.socket.close()


def run_at_pace(connection: LoadConnection, requests: int, in_flight: int, per_s: float = 0.0) -> None:
    """Send that many requests, at a rate if one is given, and wait for all responses. Raises: UnexpectedAnswerError."""
    started = time.perf_counter()
    for sent in range(requests):
        if per_s:
            time.sleep(max(0.0, sent / per_s - (time.perf_counter() - started)))
        while connection.in_flight >= in_flight:
            connection.receive()
        connection.send(1)
    while connection.in_flight:
        connection.receive()


@dataclass
class LoadWindow:
    """The result of one period of load."""

    answers: int
    seconds: float
    cpu_us_per_answer: float
    foreign_cores: float
    latencies_us: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.answers / self.seconds


def run_window(server: ServerProcess, connections: list[LoadConnection], in_flight: int, seconds: float) -> LoadWindow:
    """Keep that many requests in flight on each connection for that long, then wait for all responses."""
    gc.collect()
    gc.disable()
    meter = Meter(*server.pids)
    try:
        if len(connections) == 1:
            answers = _one(connections[0], in_flight, seconds)
        else:
            answers = _several(connections, in_flight, seconds)
    finally:
        gc.enable()
    meter.stop()
    return LoadWindow(answers, meter.seconds, meter.server_s * 1e6 / max(1, answers), meter.foreign_cores)


def _one(connection: LoadConnection, in_flight: int, seconds: float) -> int:
    answers = 0
    end = time.perf_counter() + seconds
    connection.send(in_flight)
    while True:
        got = connection.receive()
        answers += got
        if time.perf_counter() >= end:
            break
        if got:
            connection.send(got)
    while connection.in_flight:
        answers += connection.receive()
    return answers


def _several(connections: list[LoadConnection], in_flight: int, seconds: float) -> int:
    answers = 0
    end = time.perf_counter() + seconds
    poll = select.epoll()
    by_number = {connection.socket.fileno(): connection for connection in connections}
    for number, connection in by_number.items():
        poll.register(number, select.EPOLLIN)
        connection.send(in_flight)
    while time.perf_counter() < end:
        for number, _ in poll.poll(ANSWER_S_MAX):
            connection = by_number[number]
            got = connection.receive()
            if got:
                answers += got
                connection.send(got)
    poll.close()
    for connection in connections:
        while connection.in_flight:
            answers += connection.receive()
    return answers


def run_through(server: ServerProcess, connections: list[LoadConnection], in_flight: int, count: int = 0) -> LoadWindow:
    """Send each connection's ring once, or `count` of its frames, with that many requests in flight on each."""
    gc.collect()
    gc.disable()
    meter = Meter(*server.pids)
    try:
        answers = _through(connections, in_flight, count)
    finally:
        gc.enable()
    meter.stop()
    return LoadWindow(answers, meter.seconds, meter.server_s * 1e6 / max(1, answers), meter.foreign_cores)


def _through(connections: list[LoadConnection], in_flight: int, count: int) -> int:
    answers = 0
    by_number = {connection.socket.fileno(): connection for connection in connections}
    left = {connection: count or connection.frames for connection in connections}
    with select.epoll() as poll:
        for number in by_number:
            poll.register(number, select.EPOLLIN)
        while any(left.values()) or any(connection.in_flight for connection in connections):
            for connection, unsent in left.items():
                now = min(unsent, in_flight - connection.in_flight)
                connection.send(now)
                left[connection] -= now
            for number, _ in poll.poll(ANSWER_S_MAX):
                answers += by_number[number].receive()
    return answers


def run_one_by_one(server: ServerProcess, connection: LoadConnection, seconds: float) -> LoadWindow:
    """Send one request at a time, and record the latency of each."""
    latencies = []
    clock = time.perf_counter
    meter = Meter(*server.pids)
    end = clock() + seconds
    while True:
        started = clock()
        connection.send(1)
        while not connection.receive():
            pass
        done = clock()
        latencies.append((done - started) * 1e6)
        if done >= end:
            break
    meter.stop()
    window = LoadWindow(
        len(latencies), meter.seconds, meter.server_s * 1e6 / len(latencies), meter.foreign_cores, sorted(latencies)
    )
    return window
