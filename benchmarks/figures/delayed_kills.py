"""A million messages of a delay level, due at 50,000 per second, with a kill -9 and a restart meanwhile.

The result is read from the broker's log: each delayed message must be delivered once, and not before its time. The kill
is after a quarter of the deliveries, an orderly restart after half. Messages that fall due meanwhile are delivered
immediately after the start.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import frames
from benchmarks.asking import ask, messages_stored
from benchmarks.figures import Stand, Values
from benchmarks.figures.delayed import (
    LATE_S_MAX,
    MESSAGES,
    POLL_S,
    QUICK_MESSAGES,
    SPARE_S,
    STORED_PER_S,
    TOPIC,
    delayed_ring,
    store_delayed,
    stored_records,
)
from benchmarks.load import LoadConnection
from benchmarks.machine import anonymous_mib
from benchmarks.servers import ServerProcess, broker_in
from staticfire.broker.delay.stored_form import read_mark
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.record import peek_prepared_position, peek_record
from staticfire.protocol.requests.topics import UpdateTopic


class DelayedKills:
    """delayed_kills: lost, duplicate and early messages; the start time after the kill; lateness and memory then."""

    name = "delayed_kills"
    keys = ("delayed_kills_wrong", "delayed_kills_ready_ms", "delayed_kills_late_max_ms", "delayed_kills_mib")

    def measure(self, stand: Stand) -> Values:
        count = QUICK_MESSAGES if stand.is_quick else MESSAGES
        delay_s = count // STORED_PER_S + SPARE_S
        with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as name:
            folder = Path(name)
            level = f"{delay_s}s"
            with broker_in(folder, is_killed=True, messageDelayLevel=level) as server:
                ask(server.port, NATIVE, UpdateTopic(TOPIC, frames.QUEUES, frames.QUEUES, READ_WRITE))
                connection = LoadConnection(server.port, NATIVE, delayed_ring(1))
                store_delayed(connection, count)
                connection.close()
                _wait_for(server, count // 4, delay_s)
            with broker_in(folder, messageDelayLevel=level) as server:
                ready_ms = server.ready_ms
                _wait_for(server, count // 2, delay_s)
            with broker_in(folder, messageDelayLevel=level) as server:
                _wait_for(server, count, delay_s)
                memory_mib = anonymous_mib(server.pids[0])
            values = _wrong_and_late(folder / "commitlog", count, delay_s * 1000)
        return values | {"delayed_kills_ready_ms": ready_ms, "delayed_kills_mib": memory_mib}


def _wait_for(server: ServerProcess, count: int, delay_s: int) -> None:
    end = time.perf_counter() + delay_s + LATE_S_MAX
    while (stored := messages_stored(server.port, NATIVE, TOPIC)) < count:
        if time.perf_counter() > end:
            raise SystemExit(f"bench: delayed_kills: {stored} of {count} messages were delivered in time")
        time.sleep(POLL_S)


def _wrong_and_late(log: Path, count: int, delay_ms: int) -> Values:
    """Return the numbers of lost, duplicate and early messages, and the median and maximum lateness."""
    due_ms: dict[int, int] = {}
    times: Counter[int] = Counter()
    late_ms: list[int] = []
    for path in sorted(log.iterdir()):
        for at in stored_records(data := path.read_bytes()):
            mark, peek = read_mark(peek_prepared_position(data, at)), peek_record(data, at)
            if mark is None:
                due_ms[peek.queue_offset] = peek.stored_ms + delay_ms
            else:
                times[mark.offset] += 1
                late_ms.append(peek.stored_ms - due_ms[mark.offset])
    late_ms.sort()
    lost = count - len(times)
    twice = times.total() - len(times)
    early = sum(late < 0 for late in late_ms)
    return {
        "delayed_kills_lost": lost,
        "delayed_kills_twice": twice,
        "delayed_kills_early": early,
        "delayed_kills_wrong": lost + twice + early,
        "delayed_kills_late_p50_ms": late_ms[len(late_ms) // 2],
        "delayed_kills_late_max_ms": late_ms[-1],
    }
