"""A hundred thousand popped messages that aren't acknowledged: how late they are redelivered.

They fall due at the rate at which they were popped, and waiting pops receive them. Lateness is the time from the end of
a message's invisible time to the arrival of the response that contains it. 32 messages share a checkpoint.
"""

import select
import socket
import time
from collections.abc import Iterator

from benchmarks import frames
from benchmarks.asking import ask, ask_over
from benchmarks.figures import Stand, Values
from benchmarks.figures.first_pull import fill
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.pop import ALL_QUEUES, PopAnswer, PopMessage
from staticfire.protocol.requests.topics import UpdateTopic

MESSAGES, QUICK_MESSAGES = 100_000, 10_000
POPPED_PER_S = 5_000
# The time between the last pop and the first due message, so that all messages are in flight at once.
SLACK_MS = 5_000
HELD_POPS = 4
POLL_MS = 15_000
LONG_MS = 3_600_000
WAIT_S_MAX = 120
TOPIC = "again"
_FIRST_POP = b"1ST_POP_TIME\x01"
_MS_DIGITS = 13


class Redelivery:
    """pop_redelivery_100k_late_p99_ms, with wakePopsOfReturning."""

    name = "pop_redelivery"
    keys = ("pop_redelivery_100k_late_p99_ms",)

    def measure(self, stand: Stand) -> Values:
        wanted = (QUICK_MESSAGES if stand.is_quick else MESSAGES) // (frames.QUEUES * 32) * frames.QUEUES * 32
        with broker(stand.folder, wakePopsOfReturning="true") as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
            fill(server, TOPIC, wanted // frames.QUEUES)
            invisible_ms = wanted * 1000 // POPPED_PER_S + SLACK_MS
            _pop_all(server, wanted, invisible_ms)
            late_ms = sorted(_lateness(server, wanted, invisible_ms))
        values = {
            f"pop_redelivery_100k_late_p{percent}_ms": float(late_ms[wanted * percent // 100]) for percent in (50, 99)
        }
        return values | {"pop_redelivery_100k_late_max_ms": float(late_ms[-1])}


def _pop_all(server: ServerProcess, wanted: int, invisible_ms: int) -> None:
    popped, started = 0, time.perf_counter()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        while popped < wanted:
            answer = ask_over(connection, NATIVE, _pop(invisible_ms, 0))
            assert isinstance(answer, PopAnswer)
            popped += sum(len(entry.split(" ")[2].split(",")) for entry in (answer.msg_offset_info or "").split(";"))
            time.sleep(max(0.0, popped / POPPED_PER_S - (time.perf_counter() - started)))


def _pop(invisible_ms: int, poll_ms: int) -> PopMessage:
    return PopMessage("again", TOPIC, ALL_QUEUES, 32, invisible_ms, poll_ms, int(time.time() * 1000), 0)


def _lateness(server: ServerProcess, wanted: int, invisible_ms: int) -> Iterator[int]:
    """Yield for each message the time from the end of its invisible time to its redelivery."""
    left, end_s = wanted, time.perf_counter() + WAIT_S_MAX
    for frame, now_ms in _answers(server):
        at = frame.find(_FIRST_POP)
        while at >= 0:
            first_ms = int(frame[at + len(_FIRST_POP) : at + len(_FIRST_POP) + _MS_DIGITS])
            yield now_ms - first_ms - invisible_ms
            left -= 1
            at = frame.find(_FIRST_POP, at + 1)
        if not left:
            return
        if time.perf_counter() > end_s:
            raise SystemExit(f"bench: pop_redelivery: {left} of {wanted} messages have not come again")


def _answers(server: ServerProcess) -> Iterator[tuple[bytes, int]]:
    """Yield the responses to waiting pops, one after another on each connection, with their arrival times."""
    encode = codec_for(NATIVE).encode_request
    unread: dict[socket.socket, bytearray] = {}
    for _ in range(HELD_POPS):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(encode(_pop(LONG_MS, POLL_MS), 1, False))
        unread[connection] = bytearray()
    try:
        while True:
            for connection in select.select(list(unread), [], [], 1)[0]:
                data = unread[connection]
                data += connection.recv(1 << 20)
                while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
                    now_ms = int(time.time() * 1000)
                    connection.sendall(encode(_pop(LONG_MS, POLL_MS), 1, False))
                    frame = bytes(data[: 4 + size])
                    del data[: 4 + size]
                    yield frame, now_ms
    finally:
        for connection in unread:
            connection.close()
