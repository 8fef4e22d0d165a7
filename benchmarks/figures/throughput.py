"""Sends, batches and pulls per second: a fixed number of requests in flight, 1 KiB bodies, a new store each time.

The bare echo server gets the same frames in the same round, and responds with frames of the same size.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import frames
from benchmarks.asking import messages_stored
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, LoadWindow, run_window
from benchmarks.servers import ServerProcess, broker, echo
from staticfire.protocol.codecs import JSON, NATIVE

MESSAGES = 32
PULLED_PER_QUEUE = 2048
WARM_SECONDS = 0.3
CATCH_UP_S = 0.1
TOPIC = "bench"

Ring = Callable[[int], list[bytes]]


def send_ring(codec: int) -> list[bytes]:
    return frames.sends(codec, TOPIC)


def batch_ring(codec: int) -> list[bytes]:
    return frames.batches(codec, TOPIC, MESSAGES)


def pull_ring(codec: int) -> list[bytes]:
    return frames.pulls(codec, TOPIC, MESSAGES, PULLED_PER_QUEUE)


@dataclass(frozen=True)
class Throughput:
    """One kind of request, with a fixed number in flight."""

    name: str
    ring: Ring
    codec: int = NATIVE
    connections: int = 1
    in_flight: int = 64
    messages: int = 1
    """The number of messages per request."""

    @property
    def keys(self) -> tuple[str, ...]:
        return f"{self.name}_per_s", f"{self.name}_cpu_us"

    @property
    def stores(self) -> bool:
        return self.ring is not pull_ring

    def measure(self, stand: Stand) -> Values:
        ring = self.ring(self.codec)
        with broker(stand.folder) as server:
            window, answer_bytes = self.load(server, ring, stand)
        with echo(answer_bytes) as server:
            floor = self._window(server, self._connect(server, NATIVE, ring), stand)
        return {
            f"{self.name}_per_s": window.per_s * self.messages,
            f"{self.name}_cpu_us": window.cpu_us_per_answer / self.messages,
            f"{self.name}_echo_per_s": floor.per_s * self.messages,
            f"{self.name}_echo_cpu_us": floor.cpu_us_per_answer / self.messages,
            f"{self.name}_foreign": window.foreign_cores,
        }

    def load(self, server: ServerProcess, ring: list[bytes], stand: Stand) -> tuple[LoadWindow, int]:
        """Load a broker; return the window and the size of a response."""
        if not self.stores:
            fill(server, self.codec)
        connections = self._connect(server, self.codec, ring)
        run_window(server, connections, self.in_flight, WARM_SECONDS)
        before = settled(server.port, self.codec)
        window = run_window(server, connections, self.in_flight, stand.seconds)
        for connection in connections:
            connection.close()
        if self.stores:
            self._check_stored(server, before + window.answers * self.messages)
        return window, connections[0].answer_bytes

    def _check_stored(self, server: ServerProcess, expected: int) -> None:
        stored = settled(server.port, self.codec)
        if stored != expected:
            raise SystemExit(f"bench: {self.name}: {stored} messages are stored, {expected} were answered")

    def _connect(self, server: ServerProcess, codec: int, ring: list[bytes]) -> list[LoadConnection]:
        step = len(ring) // self.connections
        return [LoadConnection(server.port, codec, ring, index * step) for index in range(self.connections)]

    def _window(self, server: ServerProcess, connections: list[LoadConnection], stand: Stand) -> LoadWindow:
        run_window(server, connections, self.in_flight, WARM_SECONDS)
        window = run_window(server, connections, self.in_flight, stand.seconds / 2)
        for connection in connections:
            connection.close()
        return window


def settled(port: int, codec: int, topic: str = TOPIC) -> int:
    """Return the number of messages in the queues, once it is stable: RocketMQ fills them after its responses."""
    count = -1
    while count != (count := messages_stored(port, codec, topic)):
        time.sleep(CATCH_UP_S)
    return count


def fill(server: ServerProcess, codec: int) -> None:
    """Store the messages to pull. The queues take turns, so the messages of one queue aren't adjacent in the log."""
    ring = send_ring(codec)
    connection = LoadConnection(server.port, codec, ring)
    left = PULLED_PER_QUEUE * frames.QUEUES
    while left:
        connection.send(min(len(ring), left))
        left -= min(len(ring), left)
        while connection.in_flight:
            connection.receive()
    connection.close()


THROUGHPUT = [
    Throughput("send_c1", send_ring),
    Throughput("send_c8", send_ring, connections=8),
    Throughput("json_send_c1", send_ring, JSON),
    Throughput("json_send_c8", send_ring, JSON, connections=8),
    Throughput("batch32", batch_ring, connections=8, in_flight=4, messages=MESSAGES),
    Throughput("pull32", pull_ring, in_flight=4, messages=MESSAGES),
    Throughput("json_pull32", pull_ring, JSON, in_flight=4, messages=MESSAGES),
]
