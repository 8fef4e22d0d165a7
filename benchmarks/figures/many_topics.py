"""Sends to ten thousand topics in turn, compared with ten, by the broker's CPU time: first messages, and later ones.

A queue's first message creates its folder and its file, which the broker does in the background, a thousand per second.
This happens once, and counts for the first messages. Later messages are measured after it is finished.
"""

from statistics import median
from typing import NamedTuple

from benchmarks import frames
from benchmarks.curves.filling import create_topics
from benchmarks.figures import Stand, Values
from benchmarks.load import LoadConnection, run_through, run_window
from benchmarks.machine import Meter
from benchmarks.servers import broker, wait_until_idle
from staticfire.protocol.codecs import NATIVE

MANY, QUICK_MANY, FEW = 10_000, 1_000, 10
WINDOW = 64
# The least length of a window, so that it contains several rounds of the queues' writer.
SECONDS_MIN = 3
# The median of several windows counts: a round of the writer, or a sample of all counters, is in some of them only.
WINDOWS = 3


class _Cost(NamedTuple):
    """The broker's CPU microseconds per message."""

    first_us: float
    """For the first message of a queue, including its effects."""
    later_us: float


class ManyTopics:
    """many_topics_x: messages per CPU second with many topics, compared with ten; new_queue_cpu_us: a first message."""

    name = "many_topics"
    keys = ("many_topics_x", "many_topics_cpu_us", "new_queue_cpu_us")

    def measure(self, stand: Stand) -> Values:
        few, many = (self._cost(stand, count) for count in (FEW, QUICK_MANY if stand.is_quick else MANY))
        return {
            "many_topics_x": few.later_us / many.later_us,
            "many_topics_cpu_us": many.later_us,
            "few_topics_cpu_us": few.later_us,
            "new_queue_cpu_us": many.first_us,
        }

    def _cost(self, stand: Stand, topics: int) -> _Cost:
        names = [f"topic-{number}" for number in range(topics)]
        with broker(stand.folder) as server:
            create_topics(server, names)
            wait_until_idle(server)
            ring = [frames.sends(NATIVE, name, 1)[0] for name in names]
            connection = LoadConnection(server.port, NATIVE, ring)
            meter = Meter(*server.pids)
            run_through(server, [connection], WINDOW)
            wait_until_idle(server)
            meter.stop()
            windows = [
                run_window(server, [connection], WINDOW, max(SECONDS_MIN, stand.seconds))
                for _ in range(1 if stand.is_quick else WINDOWS)
            ]
            connection.close()
        return _Cost(meter.server_s * 1e6 / topics, median(window.cpu_us_per_answer for window in windows))
