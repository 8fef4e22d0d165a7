"""Pops of messages that were never popped before, over JSON, one connection per queue, without acknowledgements."""

from itertools import count

from benchmarks import frames
from benchmarks.figures import Stand, Values
from benchmarks.figures.first_pull import fill
from benchmarks.figures.throughput import MESSAGES, TOPIC
from benchmarks.load import LoadWindow
from benchmarks.pop_load import PopConnection, run_pops
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import JSON

STORED_PER_QUEUE = 49_152
QUICK_PER_QUEUE = 8_192
# Popped before the measurement, to warm up connections, code and the JVM.
WARM_PER_QUEUE = 2_048

# A new topic for each measurement, since popped messages aren't redelivered for an hour.
_numbers = count()


class Pops:
    """pop_per_s: messages, with up to 32 per request."""

    name = "pop"
    keys = ("pop_per_s", "pop_cpu_us")

    def measure(self, stand: Stand) -> Values:
        with broker(stand.folder) as server:
            window = self.load(server, stand)
        return {
            "pop_per_s": window.per_s,
            "pop_cpu_us": window.cpu_us_per_answer,
            "pop_foreign": window.foreign_cores,
        }

    def load(self, server: ServerProcess, stand: Stand) -> LoadWindow:
        """Store messages, and pop each of them once. The window counts messages."""
        per_queue = QUICK_PER_QUEUE if stand.is_quick else STORED_PER_QUEUE
        topic = f"{TOPIC}-pop-{next(_numbers)}"
        fill(server, topic, per_queue)
        _pop(server, topic, WARM_PER_QUEUE)
        return _pop(server, topic, per_queue - WARM_PER_QUEUE)


def _pop(server: ServerProcess, topic: str, per_queue: int) -> LoadWindow:
    connections = [
        PopConnection(server.port, frames.pops(JSON, topic, MESSAGES, [queue_id]), per_queue)
        for queue_id in range(frames.QUEUES)
    ]
    window = run_pops(server, connections)
    for connection in connections:
        connection.close()
    return window
