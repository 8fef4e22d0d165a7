"""Two brokers instead of one: the same sends on two cores, which the load generator uses, too."""

import os
from contextlib import ExitStack

from benchmarks import frames, machine
from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import WARM_SECONDS, send_ring
from benchmarks.load import LoadConnection, LoadWindow, run_window
from benchmarks.servers import ServerProcess, broker
from staticfire.protocol.codecs import NATIVE

CONNECTIONS, IN_FLIGHT = 8, 64


class ScaleOut:
    """scale_out_ratio: sends per second of two brokers, compared with one."""

    name = "scale_out"
    keys = ("scale_out_ratio",)

    def measure(self, stand: Stand) -> Values:
        own_cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, machine.ALL_CORES)
        try:
            one, two = (self._sends(count, stand) for count in (1, 2))
        finally:
            os.sched_setaffinity(0, own_cores)
        return {
            "scale_out_ratio": two.per_s / one.per_s,
            "scale_out_1_per_s": one.per_s,
            "scale_out_2_per_s": two.per_s,
            "scale_out_foreign": max(one.foreign_cores, two.foreign_cores),
        }

    def _sends(self, brokers: int, stand: Stand) -> LoadWindow:
        with ExitStack() as stack:
            servers = [stack.enter_context(broker(stand.folder)) for _ in range(brokers)]
            for server, core in zip(servers, sorted(machine.ALL_CORES), strict=False):
                machine.pin(server.pids[0], core)
            ring = send_ring(NATIVE)
            connections = [
                LoadConnection(servers[number % brokers].port, NATIVE, ring, number * frames.RING_FRAMES // CONNECTIONS)
                for number in range(CONNECTIONS)
            ]
            together = ServerProcess(tuple(pid for server in servers for pid in server.pids), 0)
            run_window(together, connections, IN_FLIGHT, WARM_SECONDS)
            window = run_window(together, connections, IN_FLIGHT, stand.seconds)
            for connection in connections:
                connection.close()
            return window
