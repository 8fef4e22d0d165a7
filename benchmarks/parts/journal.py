"""What a journal costs: two brokers in one process, with and without it, served the same in turns.

    python -m benchmarks.parts.journal [--rounds 4000] [--only pull_1,json_send_1]

What is printed is nanoseconds of CPU time per request, of the burst at which a tenth were faster, without the kernel's
network, which both have: that costs a single request twice as much again, so the share is an upper bound. The number
in a case's name is how many requests one read of the socket brings; of pulls, how many messages each is answered with.
Rings run full, and their ends go to the spill.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from benchmarks import frames
from benchmarks.machine import LOAD_CORE
from benchmarks.parts.burst import STORED_PER_QUEUE, TOPIC, NullTransport, create_topic
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.runtime.connection import Connection
from staticfire.runtime.live import live_machine

CASES = ("send_1", "send_64", "json_send_1", "json_send_64", "pull_1", "pull_32", "json_pull_1", "json_pull_32")
COLLECT_ROUNDS = 100
# After this many rounds, the event loop runs the broker's other tasks.
REST_ROUNDS = 500


def reads_of(case: str) -> tuple[list[bytes], int]:
    """Return the data of each read, and the number of requests in it."""
    name, _, number = case.rpartition("_")
    codec = JSON if name.startswith("json_") else NATIVE
    if name.endswith("pull"):
        return frames.pulls(codec, TOPIC, int(number), STORED_PER_QUEUE), 1
    ring, burst = frames.sends(codec, TOPIC), int(number)
    return [b"".join(ring[at : at + burst]) for at in range(0, len(ring) - burst + 1, burst)], burst


async def stand(stack: AsyncExitStack, is_on: bool) -> tuple[Broker, Connection]:
    """Start a broker; return it and a connection to it."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    settings = BrokerSettings(
        store_path_root_dir=folder, listen_port=0, listen_host="127.0.0.1", journal_enable=is_on, record_requests=is_on,
        journal_events_max=5_000, scrub_bytes_per_second=0,
    )  # fmt: skip
    broker = await stack.enter_async_context(Broker(live_machine(), settings))
    connection = Connection(broker.dispatcher, codec_for(NATIVE), accepting=True, owner=broker._server)
    connection.connection_made(NullTransport())
    await create_topic(connection)
    return broker, connection


async def measure(case: str, rounds: int) -> None:
    """Measure one case, and print its row."""
    async with AsyncExitStack() as stack:
        both = [await stand(stack, is_on) for is_on in (False, True)]
        reads, per_read = reads_of(case)
        if "pull" in case:
            for _, connection in both:
                for frame in frames.sends(NATIVE, TOPIC) * (STORED_PER_QUEUE * frames.QUEUES // frames.RING_FRAMES):
                    connection.data_received(frame)
        receive: list[Callable[[bytes], None]] = [connection.data_received for _, connection in both]
        spent: list[list[int]] = [[], []]
        collecting: list[int] = []
        clock = time.thread_time_ns
        for index in range(rounds):
            for which in (0, 1) if index % 2 else (1, 0):
                data = bytes(bytearray(reads[index % len(reads)]))
                started = clock()
                receive[which](data)
                spent[which].append(clock() - started)
            if index % COLLECT_ROUNDS == 0:
                journals = both[1][0].tables.journals
                assert journals is not None
                started = clock()
                journals.tidy()
                collecting.append(clock() - started)
            if index % REST_ROUNDS == 0:
                await asyncio.sleep(0.02)
        off, on = (sorted(times)[len(times) // 10] / per_read for times in spent)
        more = sorted(collecting)[len(collecting) // 4] / COLLECT_ROUNDS / per_read
        print(
            f"{case:14s} off {off:7.0f} ns   on {on - off:+5.0f}, tidied later {more:+5.0f} ns"
            f"   {100 * (on - off + more) / off:+5.1f} %"
        )


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4_000)
    parser.add_argument("--only", default=",".join(CASES))
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    for case in arguments.only.split(","):
        asyncio.run(measure(case, arguments.rounds))


if __name__ == "__main__":
    main()
