"""Pops over JSON: one in flight on each connection, and messages are counted, not answers.

A broker may bring fewer messages than it was asked for, or none: RocketMQ answers 210 (no message) while something else
holds the queue, its own book-keeping for instance, though messages are there. Who gets that pops again at once, until
all stored messages have come or the time is over; what has come by then, in that time, is the figure.
"""

import gc
import json
import select
import socket
import time
from struct import Struct

from benchmarks.load import ANSWER_S_MAX, SOCKET_BYTES, LoadWindow, UnexpectedAnswerError
from benchmarks.machine import Meter
from benchmarks.servers import ServerProcess
from staticfire.protocol.codes import ResponseCode

POP_S_MAX = 20.0
# Of one load. It takes staticfire about a second.
EMPTY_S_MAX = 10.0
# A connection that has got nothing for so long gets nothing any more.
_NOTHING_NOW = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
_HEADER_SIZE_MASK = 0xFF_FFFF
_head = Struct(">II").unpack_from
_length = Struct(">I").unpack_from


class PopConnection:
    """Pops the messages of its queues, one request after the other."""

    def __init__(self, port: int, ring: list[bytes], wanted: int) -> None:
        """`wanted`: how many messages it is to get."""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        self.socket.settimeout(ANSWER_S_MAX)
        self._ring = ring
        self._next = 0
        self._buffer = bytearray()
        self.left = wanted
        """Messages that haven't come."""
        self.got_s = time.perf_counter()
        """When messages came last."""

    def pop(self) -> None:
        """Send the next request."""
        self.socket.sendall(self._ring[self._next])
        self._next = (self._next + 1) % len(self._ring)

    def receive(self) -> int | None:
        """Wait for data; return how many messages the answer has, None while it isn't whole.

        Raises: UnexpectedAnswerError, TimeoutError.
        """
        data = self.socket.recv(SOCKET_BYTES)
        if not data:
            raise UnexpectedAnswerError("the server closed the connection; its last words are on stderr")
        self._buffer += data
        if len(self._buffer) < 4 or len(self._buffer) < 4 + _length(self._buffer, 0)[0]:
            return None
        messages = messages_popped(bytes(self._buffer))
        self._buffer.clear()
        self.left -= messages
        now_s = time.perf_counter()
        if messages:
            self.got_s = now_s
        elif now_s - self.got_s > EMPTY_S_MAX:
            raise UnexpectedAnswerError(f"no message came for {EMPTY_S_MAX:g} s, and {self.left} are left")
        return messages

    def close(self) -> None:
        self.socket.close()


def messages_popped(answer: bytes) -> int:
    """Return how many messages the answer to a pop brings. Raises: UnexpectedAnswerError."""
    header_end = 8 + (_head(answer, 0)[1] & _HEADER_SIZE_MASK)
    code = json.loads(answer[8:header_end])["code"]
    if code in _NOTHING_NOW:
        return 0
    if code != ResponseCode.SUCCESS:
        raise UnexpectedAnswerError(f"not the answer that was expected: {answer[:300]!r}")
    messages, position = 0, header_end
    while position < len(answer):
        size = _length(answer, position)[0]
        if not size:
            raise UnexpectedAnswerError(f"a stored message of no bytes, behind {messages} others")
        position += size  # Each record begins with its size.
        messages += 1
    return messages


def run_pops(server: ServerProcess, connections: list[PopConnection]) -> LoadWindow:
    """Pop until each connection has got what it wants, or the time is over; the window counts messages."""
    gc.collect()
    gc.disable()
    meter = Meter(*server.pids)
    try:
        messages = _popped(connections)
    finally:
        gc.enable()
    meter.stop()
    return LoadWindow(messages, meter.seconds, meter.server_s * 1e6 / max(1, messages), meter.foreign_cores)


def _popped(connections: list[PopConnection]) -> int:
    messages = 0
    end_s = time.perf_counter() + POP_S_MAX
    under_way = {connection.socket.fileno(): connection for connection in connections}
    with select.epoll() as poll:
        for number, connection in under_way.items():
            poll.register(number, select.EPOLLIN)
            connection.got_s = time.perf_counter()
            connection.pop()
        while under_way:
            ready = poll.poll(ANSWER_S_MAX)
            if not ready:
                raise UnexpectedAnswerError(f"no answer to a pop for {ANSWER_S_MAX} s")
            for number, _ in ready:
                connection = under_way[number]
                got = connection.receive()
                if got is None:
                    continue
                messages += got
                if connection.left > 0 and time.perf_counter() < end_s:
                    connection.pop()
                else:
                    del under_way[number]
    return messages
