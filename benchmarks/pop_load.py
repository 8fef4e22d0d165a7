"""Pops over JSON: one in flight per connection. Messages are counted, not responses.

A broker may return fewer messages than requested, or none: RocketMQ responds with 210 (no message) while something else
locks the queue, for example its own bookkeeping, although there are messages. Then the connection pops again at once,
until all stored messages have arrived or the time is over. The figure is the number of messages in that time.
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

# The limit for one load. staticfire needs about a second.
POP_S_MAX = 20.0
# A connection that has received nothing for this long won't receive anything any more.
EMPTY_S_MAX = 10.0
_NOTHING_NOW = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
_HEADER_SIZE_MASK = 0xFF_FFFF
_head = Struct(">II").unpack_from
_length = Struct(">I").unpack_from


class PopConnection:
    """Pops the messages of its queues, one request after the other."""

    def __init__(self, port: int, ring: list[bytes], wanted: int) -> None:
        """`wanted`: the number of messages to receive."""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        self.socket.settimeout(ANSWER_S_MAX)
        self._ring = ring
        self._next = 0
        self._buffer = bytearray()
        self.left = wanted
        """The number of messages that haven't arrived yet."""
        self.got_s = time.perf_counter()
        """The time when messages last arrived."""

    def pop(self) -> None:
        """Send the next request."""
        self.socket.sendall(self._ring[self._next])
        self._next = (self._next + 1) % len(self._ring)

    def receive(self) -> int | None:
        """Wait for data; return the number of messages in the response, or None while it is incomplete.

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
    """Return the number of messages in the response to a pop. Raises: UnexpectedAnswerError."""
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
        position += size  # Each record starts with its size.
        messages += 1
    return messages


def run_pops(server: ServerProcess, connections: list[PopConnection]) -> LoadWindow:
    """Pop until each connection has its messages, or the time is over. The window counts messages."""
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
