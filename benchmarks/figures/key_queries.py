"""The time of a look-up by key: of a broker, from request to response; and of its index alone, among ten million.

A broker needs a minute or two for ten million messages and their index; use `--key-messages 10000000` for that.
"""

import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks import frames
from benchmarks.asking import ask, ask_over
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, run_at_pace
from benchmarks.machine import cpu_ns
from benchmarks.servers import broker, wait_until_idle
from staticfire.broker.key_tables import Entry, IndexedSlice, KeyTables
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.queries import QueryAnswer, QueryMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.topics import UpdateTopic

MESSAGES, QUICK_MESSAGES = 10_000_000, 500_000
KEYS_EACH = 2
SLICE_MESSAGES = 4_096
RECORD_BYTES = 400
QUERIES = 500
SEED = 7
_ALL = (1 << 63) - 1


TOPIC = "keys"
BODY = bytes(64)
MESSAGES_PER_REQUEST = 200
RING_REQUESTS = 250
IN_FLIGHT = 4
CATCH_UP_S_MAX = 300


class KeyQueries:
    """key_query: the 99th percentile for random keys, requested from a broker."""

    name = "key_query"
    keys = ("key_query_ms", "key_query_stored_cpu_us")

    def measure(self, stand: Stand) -> Values:
        messages = stand.key_messages
        with broker(stand.folder) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
            before_ns = cpu_ns(server.pids[0])
            for ring in _rings(messages):
                connection = LoadConnection(server.port, NATIVE, ring)
                run_at_pace(connection, len(ring), IN_FLIGHT)
                connection.close()
            numbers = Random(SEED).sample(range(messages), QUERIES)
            with socket.create_connection(("127.0.0.1", server.port), CATCH_UP_S_MAX) as asking:
                _catch_up(asking, messages - 1)
                wait_until_idle(server)
                stored_us = (cpu_ns(server.pids[0]) - before_ns) / 1000 / messages
                times_ms = sorted(_ask(asking, number) for number in numbers)
        return {
            "key_query_ms": times_ms[QUERIES * 99 // 100],
            "key_query_p50_ms": times_ms[QUERIES // 2],
            "key_query_stored_cpu_us": stored_us,
        }


def _rings(messages: int) -> Iterator[list[bytes]]:
    """Yield frames that send that many messages, each with its own key."""
    encode = codec_for(NATIVE).encode_request
    step = RING_REQUESTS * MESSAGES_PER_REQUEST
    for begin in range(0, messages, step):
        ring = []
        for first in range(begin, min(begin + step, messages), MESSAGES_PER_REQUEST):
            body = [
                ManyMessage(TOPIC, number % frames.QUEUES, _properties(number), BODY, 0, 0, frames.BORN_MS)
                for number in range(first, min(first + MESSAGES_PER_REQUEST, messages))
            ]
            ring.append(encode(SendMany(frames.GROUP, frames.TEMPLATE_TOPIC, frames.QUEUES, body=body), 1, False))
        yield ring


def _properties(number: int) -> bytes:
    return b"KEYS\x01order-%d\x02UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % (number, number)


def _catch_up(connection: socket.socket, number: int) -> None:
    """Wait until the index has the last message: before that, a response reports what is missing."""
    end = time.perf_counter() + CATCH_UP_S_MAX
    question = QueryMessage(TOPIC, f"order-{number}", 32, 0, _ALL)
    while time.perf_counter() < end:
        try:
            if ask_over(connection, NATIVE, question).remark is None:
                return
        except RuntimeError:
            pass  # It isn't found yet.
    raise SystemExit(f"bench: key_query: the index hasn't caught up within {CATCH_UP_S_MAX} s")


def _ask(connection: socket.socket, number: int) -> float:
    """Return the milliseconds from request to response."""
    began_s = time.perf_counter()
    answer = ask_over(connection, NATIVE, QueryMessage(TOPIC, f"order-{number}", 32, 0, _ALL))
    took_ms = (time.perf_counter() - began_s) * 1e3
    assert isinstance(answer, QueryAnswer)
    assert answer.body is not None
    assert len(answer.body.records) == 1
    return took_ms


class KeyIndex:
    """key_index: the same for the index alone, among ten million messages."""

    name = "key_index"
    keys = ("key_index_ms",)

    def measure(self, stand: Stand) -> Values:
        messages = QUICK_MESSAGES if stand.is_quick else MESSAGES
        with tempfile.TemporaryDirectory(dir=stand.folder) as folder:
            index = KeyTables(str(Path(folder) / "keys.sqlite"))
            began_s = time.process_time()
            wanted = fill(index, messages)
            filling_s = time.process_time() - began_s
            times_ms = sorted(look_up(index, *entry[:2]) for entry in Random(SEED).sample(wanted, QUERIES))
            index.close()
        return {"key_index_ms": times_ms[QUERIES * 99 // 100], "key_index_cpu_us": filling_s * 1e6 / messages}


def fill(index: KeyTables, messages: int) -> list[Entry]:
    """Add that many messages; return some of the entries."""
    random = Random(SEED)
    some: list[Entry] = []
    for first in range(0, messages, SLICE_MESSAGES):
        rows = [
            (random.getrandbits(64) - (1 << 63), number * RECORD_BYTES, number)
            for number in range(first, first + SLICE_MESSAGES)
            for _ in range(KEYS_EACH)
        ]
        end = (first + SLICE_MESSAGES) * RECORD_BYTES
        index.add(IndexedSlice(rows, end, rows[-1][1:], 0))
        some += rows[:: SLICE_MESSAGES // 4]
    return some


def look_up(index: KeyTables, key_hash: int, position: int) -> float:
    """Return the milliseconds that it takes to find a key."""
    began_s = time.perf_counter()
    found = index.find(key_hash, 0, _ALL, _ALL, 64)
    took_ms = (time.perf_counter() - began_s) * 1e3
    assert found == [position]
    return took_ms
