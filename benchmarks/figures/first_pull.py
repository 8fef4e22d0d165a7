"""Pulls of messages that were never read before, over JSON, as in the first group of an unchanged client.

Warm pulls (throughput.py) read the same messages repeatedly, from the broker's caches. Pops, which are always first
reads, are in pops.py.
"""

from dataclasses import dataclass
from itertools import count

from benchmarks import frames
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import MESSAGES, TOPIC, settled
from benchmarks.load import LoadConnection, LoadWindow, run_through
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import JSON

STORED_PER_QUEUE = 49_152
QUICK_PER_QUEUE = 8_192
# Pulled before the measurement, to warm up connections, code and the JVM. The measured messages are after them.
WARM_PER_QUEUE = 2_048
FILL_IN_FLIGHT = 4
IN_FLIGHT = 4

# A new topic for each measurement, since messages can be pulled for the first time only once.
_numbers = count()


@dataclass(frozen=True)
class FirstPull:
    """One connection for all queues, or one per queue."""

    name: str
    connections: int

    @property
    def keys(self) -> tuple[str, ...]:
        return f"{self.name}_per_s", f"{self.name}_cpu_us"

    def measure(self, stand: Stand) -> Values:
        with broker(stand.folder) as server:
            window = self.load(server, stand)
        return {
            f"{self.name}_per_s": window.per_s * MESSAGES,
            f"{self.name}_cpu_us": window.cpu_us_per_answer / MESSAGES,
            f"{self.name}_foreign": window.foreign_cores,
        }

    def load(self, server: ServerProcess, stand: Stand) -> LoadWindow:
        """Store messages, and pull each of them once."""
        per_queue = QUICK_PER_QUEUE if stand.is_quick else STORED_PER_QUEUE
        topic = f"{TOPIC}-first-{next(_numbers)}"
        fill(server, topic, per_queue)
        shares = [range(at, frames.QUEUES, self.connections) for at in range(self.connections)]
        rings = [frames.pulls(JSON, topic, MESSAGES, per_queue, queue_ids) for queue_ids in shares]
        warm = WARM_PER_QUEUE // MESSAGES * frames.QUEUES // self.connections
        connections = [LoadConnection(server.port, JSON, ring[:warm]) for ring in rings]
        run_through(server, connections, IN_FLIGHT)
        measured = [LoadConnection(server.port, JSON, ring[warm:]) for ring in rings]
        window = run_through(server, measured, IN_FLIGHT)
        for connection in [*connections, *measured]:
            connection.close()
        return window


def fill(server: ServerProcess, topic: str, per_queue: int) -> None:
    """Store that many messages in each queue, in batches: the queues take turns."""
    ring = frames.batches(JSON, topic, MESSAGES)
    connection = LoadConnection(server.port, JSON, ring)
    left = per_queue * frames.QUEUES // MESSAGES
    while left:
        now = min(left, FILL_IN_FLIGHT - connection.in_flight)
        connection.send(now)
        left -= now
        connection.receive()
    while connection.in_flight:
        connection.receive()
    connection.close()
    settled(server.port, JSON, topic)


FIRST_PULLS = [
    FirstPull("json_pull32_first_c1", 1),
    FirstPull("json_pull32_first_c4", 4),
]
