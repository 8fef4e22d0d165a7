"""Fills brokers and times their starts."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import frames
from benchmarks.figures import Stand
from benchmarks.load import LoadConnection, LoadWindow, run_through, run_window
from benchmarks.machine import SERVER_CORE, cpu_ns, pin
from benchmarks.servers import ROOT, ServerProcess
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import Request
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import UpdateTopic

START_S_MAX = 120
WARM_SECONDS = 0.3
PREPARE_IN_FLIGHT = 32
SETTLE_S = 0.5
IDLE_CPU_NS = 10_000_000
IDLE_LOOKS_MAX = 60


@contextmanager
def new_folder(stand: Stand) -> Iterator[Path]:
    """Make a folder for stores, which is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
        yield Path(folder)


@contextmanager
def broker_in(folder: Path, is_killed: bool = False, **settings: str) -> Iterator[tuple[ServerProcess, float]]:
    """Run a broker on a folder; yield it and the milliseconds from its process's start to its being ready."""
    settings = {
        "storePathRootDir": str(folder), "namesrvAddr": "", "vipPortEnable": "false",
        "listenHost": "127.0.0.1", "listenPort": "0", **settings,
    }  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours:
        started = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable, "-m", "staticfire.broker", "--settings", json.dumps(settings),
                "--parent-fd", str(theirs.fileno()),
            ],
            cwd=ROOT, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        try:
            pin(process.pid, SERVER_CORE)
            ours.settimeout(START_S_MAX)
            line = ours.recv(4096)
            ready_ms = (time.perf_counter() - started) * 1000
            if not line:
                raise SystemExit(f"bench: a broker did not start (exit code {process.wait()})")
            yield ServerProcess((process.pid,), json.loads(line)["port"]), ready_ms
        finally:
            process.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
            process.wait(START_S_MAX)


def create_topics(server: ServerProcess, topics: Sequence[str], queues: int = frames.QUEUES) -> None:
    """Create topics."""
    run_all(server, [UpdateTopic(topic, queues, queues, READ_WRITE) for topic in topics])


def run_all(server: ServerProcess, requests: Sequence[Request]) -> LoadWindow:
    """Send each request once over one connection."""
    encode = codec_for(NATIVE).encode_request
    ring = [encode(request, opaque, False) for opaque, request in enumerate(requests)]
    connection = LoadConnection(server.port, NATIVE, ring)
    window = run_through(server, [connection], PREPARE_IN_FLIGHT)
    connection.close()
    return window


def run_ring(server: ServerProcess, rings: Sequence[list[bytes]], in_flight: int, seconds: float) -> LoadWindow:
    """Send rings, each over a connection of its own, for so long; a while before is not counted."""
    step = max(1, len(rings[0]) // len(rings))
    connections = [
        LoadConnection(server.port, NATIVE, ring, index * step % len(ring)) for index, ring in enumerate(rings)
    ]
    run_window(server, connections, in_flight, WARM_SECONDS)
    window = run_window(server, connections, in_flight, seconds)
    for connection in connections:
        connection.close()
    return window


def wait_until_idle(server: ServerProcess) -> None:
    """Wait until a server has brought to the disk what it was given."""
    for _ in range(IDLE_LOOKS_MAX):
        before = cpu_ns(server.pids[0])
        time.sleep(SETTLE_S)
        if cpu_ns(server.pids[0]) - before < IDLE_CPU_NS:
            return
