"""Where the time of a burst goes: a real broker behind one connection without a socket, stage by stage.

    python -m benchmarks.parts.burst [--burst 64] [--rounds 300] [--only send,json_pull] [--profile]

Each row leaves one stage more in place than the one above it; the third is everything but the kernel's network. The
last is the same with runs of sends taken by the compiled twin: in the rows above each is a call. What is
printed is nanoseconds of CPU time per message: the burst at which a twentieth of all were faster, since others
who use the machine make them slower and never faster.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks import frames
from benchmarks.machine import LOAD_CORE
from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codecs import JSON, NATIVE, codec_for
from staticfire.runtime.connection import Connection
from staticfire.runtime.live import live_machine

MESSAGES = 32
STORED_PER_QUEUE = 1024
TOPIC = "orders"


class NullTransport(asyncio.Transport):
    """A transport that discards everything."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50000), "sockname": ("127.0.0.1", 10911)})
        self.written = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    close = abort


def bursts_of(name: str, burst: int) -> tuple[list[bytes], int]:
    """Return the data of each read, and the number of messages in it."""
    codec = JSON if name.startswith("json_") else NATIVE
    kind = name.removeprefix("json_")
    if kind == "send":
        ring, per_frame, per_burst = frames.sends(codec, TOPIC), 1, burst
    elif kind == "batch":
        ring, per_frame, per_burst = frames.batches(codec, TOPIC, MESSAGES), MESSAGES, 4
    elif kind == "many":
        ring, per_frame, per_burst = frames.manys(codec, TOPIC, MESSAGES), MESSAGES, 4
    else:
        ring, per_frame, per_burst = frames.pulls(codec, TOPIC, MESSAGES, STORED_PER_QUEUE), MESSAGES, 4
    reads = [b"".join(ring[at : at + per_burst]) for at in range(0, len(ring) - per_burst + 1, per_burst)]
    return reads, per_frame * per_burst


def without_handlers(broker: Broker, connection: Connection) -> Callable[[], None]:
    """Leave only: splitting frames and decoding requests."""
    with_runs, routes = without_runs(broker, connection), broker.dispatcher.routes
    handlers, hot, known = dict(routes.handlers), dict(routes.hot), set(routes.known)
    routes.handlers.update(dict.fromkeys(handlers, lambda call: None))
    routes.hot.update({mark: (decode, lambda call: None) for mark, (decode, _) in hot.items()})

    def back() -> None:
        routes.handlers.update(handlers)
        # A request kind that was first received meanwhile has no real handler there, so it must be looked up again.
        routes.hot.clear()
        routes.hot.update(hot)
        routes.known.clear()
        routes.known.update(known)
        with_runs()

    return back


def without_answers(broker: Broker, connection: Connection) -> Callable[[], None]:
    """Leave everything but encoding and writing responses."""
    with_runs, saved = without_runs(broker, connection), Connection.send_answer
    Connection.send_answer = lambda self, call, answer: None  # type: ignore[method-assign]

    def back() -> None:
        Connection.send_answer = saved  # type: ignore[method-assign]
        with_runs()

    return back


def without_runs(broker: Broker, _connection: Connection) -> Callable[[], None]:
    """Leave everything, but process requests one by one, as without the compiled module's handling of runs."""
    routes = broker.dispatcher.routes
    runs, routes.runs = routes.runs, None

    def back() -> None:
        routes.runs = runs

    return back


def with_all(_broker: Broker, _connection: Connection) -> Callable[[], None]:
    return lambda: None


STAGES = {"read": without_handlers, "+ handle, store": without_answers, "+ answer": without_runs, "compiled": with_all}
CASES = ["send", "many", "batch", "pull", "json_send", "json_batch", "json_pull"]


def run_bursts(connection: Connection, reads: list[bytes], rounds: int) -> float:
    """Return the nanoseconds of a burst that other programs didn't disturb."""
    times = []
    clock, receive = time.thread_time_ns, connection.data_received
    for index in range(rounds):
        # A new object each time, as from a socket's read.
        data = bytes(bytearray(reads[index % len(reads)]))
        started = clock()
        receive(data)
        times.append(clock() - started)
    return sorted(times)[len(times) // 20]


async def create_topic(connection: Connection) -> None:
    """Send a message and wait for the response. After that its topic exists."""
    transport = connection.transport
    assert isinstance(transport, NullTransport)
    connection.data_received(frames.sends(NATIVE, TOPIC, 1)[0])
    await transport.written.wait()


async def measure(name: str, arguments: argparse.Namespace) -> None:
    """Measure one case in a new folder, and print its rows."""
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        settings = BrokerSettings(store_path_root_dir=folder, listen_port=0, listen_host="127.0.0.1")
        async with Broker(live_machine(), settings) as broker:
            connection = Connection(broker.dispatcher, codec_for(NATIVE), accepting=True, owner=broker._server)
            connection.connection_made(NullTransport())
            await create_topic(connection)
            if name.endswith("pull"):
                for read in bursts_of("send", 64)[0] * (STORED_PER_QUEUE * frames.QUEUES // frames.RING_FRAMES):
                    connection.data_received(read)
            reads, messages = bursts_of(name, arguments.burst)
            for stage, take_away in STAGES.items():
                put_back = take_away(broker, connection)
                run_bursts(connection, reads, 20)
                spent_ns = run_bursts(connection, reads, arguments.rounds)
                put_back()
                await asyncio.sleep(0)
                print(f"{name:12s} {stage:16s} {spent_ns / messages:8.0f} ns per message")
            if arguments.profile:
                profile = cProfile.Profile()
                profile.runcall(run_bursts, connection, reads, arguments.rounds)
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burst", type=int, default=64, help="sends per read")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--dir", help="where the store lies (default: a temporary folder)")
    parser.add_argument("--profile", action="store_true", help="where the time goes, function by function")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE})
    for name in arguments.only.split(","):
        asyncio.run(measure(name, arguments))


if __name__ == "__main__":
    main()
