"""One million messages with individual delivery times: the broker's memory, and how late other ones are meanwhile.

The million is due in hours; others are due seconds after they are sent, at a constant rate. Their lateness is read from
the log, where a delivered record refers to its delayed one.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import frames
from benchmarks.asking import ask, messages_stored
from benchmarks.figures import Stand, Values
from benchmarks.figures.delayed import stored_records
from benchmarks.load import LoadConnection, run_at_pace
from benchmarks.machine import anonymous_mib
from benchmarks.servers import ServerProcess, broker
from staticfire.broker.delay.stored_form import read_mark
from staticfire.broker.timers.forms import TIMER_LEVEL
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.record import peek_prepared_position, peek_record
from staticfire.protocol.requests.topics import UpdateTopic

MESSAGES, QUICK_MESSAGES = 1_000_000, 100_000
DUE = 20_000
DUE_PER_S = 2_000
DUE_AFTER_MS = 4_000
MESSAGES_PER_REQUEST = 100
IN_FLIGHT = 2
BODY = bytes(128)
TOPIC = "timers"
LATE_S_MAX = 60
POLL_S = 0.1


class Timers:
    """timers_1m: the memory for a million waiting messages, and how late other messages are."""

    name = "timers_1m"
    keys = ("timers_1m_rss_mib", "timers_1m_late_p99_ms")

    def measure(self, stand: Stand) -> Values:
        count = QUICK_MESSAGES if stand.is_quick else MESSAGES
        with (
            tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder,
            broker(stand.folder, storePathRootDir=folder) as server,
        ):
            values = _measure(server, count)
            late_ms = sorted(_lateness(Path(folder, "commitlog")))
        if len(late_ms) != DUE:
            raise SystemExit(f"bench: timers_1m: {len(late_ms)} of {DUE} messages were delivered")
        for percent in (50, 99):
            values[f"timers_1m_late_p{percent}_ms"] = late_ms[DUE * percent // 100]
        return values | {"timers_1m_late_max_ms": late_ms[-1]}


def _measure(server: ServerProcess, count: int) -> Values:
    ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
    before_mib = anonymous_mib(server.pids[0])
    started = time.perf_counter()
    for hours in range(2, 7):
        _send(server, count // 5, hours * 3_600_000, 0)
    store_s = time.perf_counter() - started
    after_mib = anonymous_mib(server.pids[0])
    _send(server, DUE, DUE_AFTER_MS, DUE_PER_S)
    end = time.perf_counter() + LATE_S_MAX
    while (stored := messages_stored(server.port, NATIVE, TOPIC)) < DUE:
        if time.perf_counter() > end:
            raise SystemExit(f"bench: timers_1m: {stored} of {DUE} messages were delivered in time")
        time.sleep(POLL_S)
    return {"timers_1m_rss_mib": after_mib - before_mib, "timers_1m_stored_per_s": count / store_s}


def _send(server: ServerProcess, count: int, delay_ms: int, per_s: int) -> None:
    """Send that many, at a rate if one is given, and wait for all responses."""
    delay = f"TIMER_DELAY_MS\x01{delay_ms}\x02"
    ring = frames.manys(NATIVE, TOPIC, MESSAGES_PER_REQUEST, body=BODY, delay=delay)
    connection = LoadConnection(server.port, NATIVE, ring)
    run_at_pace(connection, count // MESSAGES_PER_REQUEST, IN_FLIGHT, per_s / MESSAGES_PER_REQUEST)
    connection.close()


def _lateness(log: Path) -> Iterator[int]:
    """Yield the time from due to stored, for each delivered message."""
    due_ms: dict[int, int] = {}
    for path in sorted(log.iterdir()):
        for at in stored_records(data := path.read_bytes()):
            mark, peek = read_mark(peek_prepared_position(data, at)), peek_record(data, at)
            if mark is None:
                # A record of the timer topic; all other records have a mark.
                due_ms[peek.queue_offset] = peek.stored_ms + DUE_AFTER_MS
            elif mark.level == TIMER_LEVEL:
                yield peek.stored_ms - due_ms.pop(mark.offset)
