"""One send at a time: the time until the response, compared with the bare echo server."""

from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import WARM_SECONDS, send_ring
from benchmarks.load import LoadConnection, LoadWindow, run_one_by_one
from benchmarks.servers import ServerProcess, broker, echo
from staticfire.protocol.codecs import NATIVE


class Latency:
    """send_rtt and echo_rtt."""

    name = "send_rtt"
    keys = ("send_rtt_p50_us", "echo_rtt_p50_us")

    def __init__(self, codec: int = NATIVE) -> None:
        self._codec = codec

    def measure(self, stand: Stand) -> Values:
        ring = send_ring(self._codec)
        with broker(stand.folder) as server:
            window, answer_bytes = self.load(server, ring, self._codec, stand)
        with echo(answer_bytes) as server:
            floor, _ = self.load(server, ring, NATIVE, stand)
        return {
            "send_rtt_p50_us": percentile(window, 50),
            "send_rtt_p99_us": percentile(window, 99),
            "echo_rtt_p50_us": percentile(floor, 50),
            "echo_rtt_p99_us": percentile(floor, 99),
            "send_rtt_cpu_us": window.cpu_us_per_answer,
            "send_rtt_foreign": window.foreign_cores,
        }

    def load(self, server: ServerProcess, ring: list[bytes], codec: int, stand: Stand) -> tuple[LoadWindow, int]:
        """Load a server; return the window and the size of a response."""
        connection = LoadConnection(server.port, codec, ring)
        run_one_by_one(server, connection, WARM_SECONDS)
        window = run_one_by_one(server, connection, stand.seconds)
        connection.close()
        return window, connection.answer_bytes


def percentile(window: LoadWindow, percent: int) -> float:
    """Return a percentile of a window's latencies."""
    return window.latencies_us[len(window.latencies_us) * percent // 100]
