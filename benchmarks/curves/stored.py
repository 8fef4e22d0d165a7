"""More stored messages: how long a broker takes to start, and whether reads or writes become slower."""

import random
import time

from benchmarks import frames
from benchmarks.curves.curve import Curve
from benchmarks.curves.filling import create_topics, new_folder, run_all, run_ring
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, run_through
from benchmarks.machine import anonymous_mib
from benchmarks.servers import broker_in, wait_until_idle
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.requests.offsets import SearchOffset
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage

TOPIC = "curve"
PER_REQUEST = 100
BODY = bytes(100)
READS = 2_000
SEARCHES = 500


def _stored(count: int, stand: Stand) -> Values:
    rng = random.Random(count)
    per_queue = count // frames.QUEUES
    with new_folder(stand) as folder:
        with broker_in(folder) as server:
            create_topics(server, [TOPIC])
            started_s = time.time()
            ring = frames.manys(NATIVE, TOPIC, PER_REQUEST, body=BODY)
            filled = LoadConnection(server.port, NATIVE, ring)
            run_through(server, [filled], 4, count // PER_REQUEST)
            filled.close()
            wait_until_idle(server)
            reads = [
                PullMessage(
                    frames.GROUP, TOPIC, number % frames.QUEUES, rng.randrange(per_queue), 1, FLAG_SUBSCRIPTION,
                    0, 0, "*",
                )
                for number in range(READS)
            ]  # fmt: skip
            read = run_all(server, reads)
            middle_ms = int((started_s + time.time()) * 500)
            searches = [SearchOffset(TOPIC, number % frames.QUEUES, middle_ms) for number in range(SEARCHES)]
            searched = run_all(server, searches)
            memory_mib = anonymous_mib(server.pids[0])
        with broker_in(folder, is_killed=True) as server:
            window = run_ring(server, [frames.sends(NATIVE, TOPIC)], 64, stand.seconds)
        with broker_in(folder) as recovered:
            pass
    return {
        "start_ms": server.ready_ms,
        "recovery_ms": recovered.ready_ms,
        "read_cpu_us": read.cpu_us_per_answer,
        "search_cpu_us": searched.cpu_us_per_answer,
        "send_cpu_us": window.cpu_us_per_answer,
        "memory_mib": memory_mib,
    }


STORED = [
    Curve(
        "stored", "stored messages of 100 bytes", (10_000, 100_000, 1_000_000, 10_000_000),
        {
            "start_ms": "ms of a start after an orderly stop",
            "recovery_ms": "ms of a start after kill -9",
            "read_cpu_us": "us per message read anywhere",
            "search_cpu_us": "us to find an offset by time",
            "send_cpu_us": "us per send",
            "memory_mib": "MiB of memory",
        },
        _stored,
        note="Before kill -9 the broker has taken sends of 1 KiB for a second.",
    )
]  # fmt: skip
