"""Fill brokers with data for a measurement."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import frames
from benchmarks.figures import Stand
from benchmarks.load import LoadConnection, LoadWindow, run_through, run_window
from benchmarks.servers import ServerProcess
from staticfire.protocol.codecs import NATIVE, codec_for
from staticfire.protocol.command import Request
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import UpdateTopic

WARM_SECONDS = 0.3
PREPARE_IN_FLIGHT = 32


@contextmanager
def new_folder(stand: Stand) -> Iterator[Path]:
    """Create a temporary folder for stores."""
    with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
        yield Path(folder)


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
    """Send each ring over its own connection for that long, after a warm-up that isn't counted."""
    step = max(1, len(rings[0]) // len(rings))
    connections = [
        LoadConnection(server.port, NATIVE, ring, index * step % len(ring)) for index, ring in enumerate(rings)
    ]
    run_window(server, connections, in_flight, WARM_SECONDS)
    window = run_window(server, connections, in_flight, seconds)
    for connection in connections:
        connection.close()
    return window
