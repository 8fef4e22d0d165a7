"""One million messages with the same delay level: CPU time and memory of each, and how late they are delivered.

They are stored at a constant rate, and fall due at the same rate. The due time and the storing time of each are read
from the broker's log, where a delivered record refers to its delayed one. So no consumer's speed affects the figure.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import frames
from benchmarks.asking import ask, messages_stored
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, run_at_pace
from benchmarks.machine import Meter, anonymous_mib
from benchmarks.servers import ServerProcess, broker
from staticfire.broker.delay.stored_form import read_mark
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.record import peek_prepared_position, peek_record, peek_record_bytes
from staticfire.protocol.requests.offsets import GetMaxOffset, OffsetAnswer
from staticfire.protocol.requests.topics import UpdateTopic

MESSAGES, QUICK_MESSAGES = 1_000_000, 100_000
# A broker that does nothing else then uses half of its core, on an idle machine.
STORED_PER_S = 50_000
# The time between the last stored message and the first due one, if the machine keeps up with the rate.
SPARE_S = 6
MESSAGES_PER_REQUEST = 100
IN_FLIGHT = 2
WARM_MESSAGES = 2_000
BODY = bytes(128)
TOPIC = "delayed"
LATE_S_MAX = 60
POLL_S = 0.1
RECORD_HEAD = b"\xdc\x00\x11\xce"


class Delayed:
    """delayed_1m: the broker's CPU time and memory for each message, and how late it is stored when due."""

    name = "delayed_1m"
    keys = ("delayed_1m_cpu_us", "delayed_1m_bytes_each", "delayed_1m_late_p99_ms")

    def measure(self, stand: Stand) -> Values:
        count = QUICK_MESSAGES if stand.is_quick else MESSAGES
        delay_s = count // STORED_PER_S + SPARE_S
        with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
            settings = {"storePathRootDir": folder, "messageDelayLevel": f"1s {delay_s}s"}
            with broker(stand.folder, **settings) as server:
                values = _measure(server, count, delay_s)
                late_ms = sorted(_lateness(Path(folder, "commitlog"), delay_s * 1000))
        if len(late_ms) != count:
            raise SystemExit(f"bench: delayed_1m: {len(late_ms)} of {count} delayed messages were delivered")
        for percent in (50, 99):
            values[f"delayed_1m_late_p{percent}_ms"] = late_ms[count * percent // 100]
        return values | {"delayed_1m_late_max_ms": late_ms[-1]}


def _measure(server: ServerProcess, count: int, delay_s: int) -> Values:
    ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
    connection = LoadConnection(server.port, NATIVE, delayed_ring(delay_level=1))
    store_delayed(connection, WARM_MESSAGES)
    _wait_for(server, WARM_MESSAGES)
    connection.close()
    connection = LoadConnection(server.port, NATIVE, delayed_ring(delay_level=2))
    before_mib = anonymous_mib(server.pids[0])
    meter, started = Meter(*server.pids), time.perf_counter()
    store_delayed(connection, count)
    store_s = time.perf_counter() - started
    after_mib = anonymous_mib(server.pids[0])
    pending = _delayed(server) - (messages_stored(server.port, NATIVE, TOPIC) - WARM_MESSAGES)
    time.sleep(max(0.0, delay_s - store_s))
    _wait_for(server, WARM_MESSAGES + count)
    meter.stop()
    connection.close()
    return {
        "delayed_1m_cpu_us": meter.server_s * 1e6 / count,
        "delayed_1m_bytes_each": (after_mib - before_mib) * 2**20 / pending,
        "delayed_1m_pending": pending,
        "delayed_1m_foreign": meter.foreign_cores,
    }


def delayed_ring(delay_level: int) -> list[bytes]:
    """Return requests with 100 messages of a delay level each."""
    return frames.manys(NATIVE, TOPIC, MESSAGES_PER_REQUEST, body=BODY, delay=f"DELAY\x01{delay_level}\x02")


def store_delayed(connection: LoadConnection, count: int) -> None:
    """Send them at the constant rate, and wait for all responses."""
    run_at_pace(connection, count // MESSAGES_PER_REQUEST, IN_FLIGHT, STORED_PER_S / MESSAGES_PER_REQUEST)


def _delayed(server: ServerProcess) -> int:
    answer = ask(server.port, NATIVE, GetMaxOffset(SCHEDULE_TOPIC, 1))
    assert isinstance(answer, OffsetAnswer)
    return answer.offset


def _wait_for(server: ServerProcess, count: int) -> None:
    end = time.perf_counter() + LATE_S_MAX
    while (stored := messages_stored(server.port, NATIVE, TOPIC)) < count:
        if time.perf_counter() > end:
            raise SystemExit(f"bench: delayed_1m: {stored} of {count} messages were delivered in time")
        time.sleep(POLL_S)


def _lateness(log: Path, delay_ms: int) -> Iterator[int]:
    """Yield the time from due to stored, for each delivered message of level 2."""
    due_ms: dict[int, int] = {}
    for path in sorted(log.iterdir()):
        for at in stored_records(data := path.read_bytes()):
            mark = read_mark(peek_prepared_position(data, at))
            if mark is None:
                peek = peek_record(data, at)
                if peek.queue_id == 1:  # A record of the schedule topic; all other records here have a mark.
                    due_ms[peek.queue_offset] = peek.stored_ms + delay_ms
            elif mark.level == 2:
                yield peek_record(data, at).stored_ms - due_ms.pop(mark.offset)


def stored_records(segment: bytes) -> Iterator[int]:
    """Yield the positions of the records in a log segment. After the last one is a blank, or nothing yet."""
    at = 0
    while segment.startswith(RECORD_HEAD, at):
        yield at
        at += peek_record_bytes(segment, at)
