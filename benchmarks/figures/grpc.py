"""The gRPC endpoint: sends and receives of RocketMQ 5 clients, its effect on the start time, and its memory.

Nameserver, broker and endpoint share the servers' core.
"""

import asyncio
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from itertools import count

from benchmarks.figures import Stand, Values
from benchmarks.figures.first_pull import fill
from benchmarks.figures.throughput import WARM_SECONDS
from benchmarks.frames import QUEUES
from benchmarks.grpc_load import load_sends
from benchmarks.grpc_receive_load import load_receives
from benchmarks.machine import cpu_ns, descendants, pss_mib
from benchmarks.servers import ROOT, STOP_S_MAX, ServerProcess, broker, environment, nameserver, proxy
from staticfire.client.admin.admin import Admin
from staticfire.client.cluster.settings import ClientSettings

TOPIC = "bench"
CONNECTIONS, IN_FLIGHT = 8, 32
RECEIVERS = 4
RECEIVED, RECEIVED_QUICK, RECEIVED_WARM = 49_152, 16_384, 8_192
# Part of the keys that frames.py gives to messages. It is in each message once.
MESSAGE_MARK = b"order-"
UP = ["-m", "staticfire", "up", "--namesrv-port", "0", "--broker-port", "0", "--control-port", "0"]
PROXY = "staticfire.proxy"

_numbers = count()


class GrpcSends:
    """grpc_send_per_s, and the endpoint's CPU time of each send."""

    name = "grpc_sends"
    keys = ("grpc_send_per_s", "grpc_send_cpu_us", "grpc_pss_mib")

    def measure(self, stand: Stand) -> Values:
        with (
            nameserver() as names,
            broker(stand.folder, namesrv=names.address),
            proxy(names.address) as endpoint,
        ):
            asyncio.run(create_topic(names.address))
            ssl.get_server_certificate(("127.0.0.1", endpoint.port))  # Memory is measured after TLS was used once.
            values = self.load(endpoint, stand)
            return {**values, "grpc_pss_mib": pss_mib(endpoint.pids[0])}

    def load(self, endpoint: ServerProcess, stand: Stand, may_fail: bool = False) -> Values:
        """Send through an endpoint whose cluster has the topic. `may_fail`: count only OK responses."""
        asyncio.run(load_sends(endpoint.port, TOPIC, CONNECTIONS, IN_FLIGHT, WARM_SECONDS, may_fail=True))
        before = cpu_ns(endpoint.pids[-1])
        sent, took_s = asyncio.run(load_sends(endpoint.port, TOPIC, CONNECTIONS, IN_FLIGHT, stand.seconds, may_fail))
        spent_us = (cpu_ns(endpoint.pids[-1]) - before) / 1000
        return {"grpc_send_per_s": sent / took_s, "grpc_send_cpu_us": spent_us / max(1, sent)}


class GrpcReceives:
    """grpc_receive_per_s: messages received for the first time, 32 per call, one call at a time per connection."""

    name = "grpc_receives"
    keys = ("grpc_receive_per_s", "grpc_receive_cpu_us")

    def measure(self, stand: Stand) -> Values:
        with (
            nameserver() as names,
            broker(stand.folder, namesrv=names.address) as server,
            proxy(names.address) as endpoint,
        ):
            return self.load(names.address, server, endpoint, stand)

    def load(self, namesrv: str, server: ServerProcess, endpoint: ServerProcess, stand: Stand) -> Values:
        """Store messages, and receive them. Some of another topic come first, to warm up code and the JVM."""
        self._receive(namesrv, server, endpoint, RECEIVED_WARM)
        before = cpu_ns(endpoint.pids[-1])
        received, took_s = self._receive(namesrv, server, endpoint, RECEIVED_QUICK if stand.is_quick else RECEIVED)
        spent_us = (cpu_ns(endpoint.pids[-1]) - before) / 1000
        return {"grpc_receive_per_s": received / took_s, "grpc_receive_cpu_us": spent_us / received}

    def _receive(
        self, namesrv: str, server: ServerProcess, endpoint: ServerProcess, messages: int
    ) -> tuple[int, float]:
        topic = f"{TOPIC}-receive-{next(_numbers)}"
        asyncio.run(create_topic(namesrv, topic))
        fill(server, topic, messages // QUEUES)
        wanted = messages * 9 // 10  # The last ones are left, since a receive without messages waits.
        where = topic, "bench-receives"
        return asyncio.run(load_receives(endpoint.port, where, RECEIVERS, MESSAGE_MARK, wanted))


class GrpcStart:
    """grpc_ready_ms: how much later `staticfire up` is ready with the endpoint."""

    name = "grpc_start"
    keys = ("grpc_ready_ms",)

    def measure(self, stand: Stand) -> Values:
        without_s, with_s = _ready_s(stand, "--no-grpc"), _ready_s(stand, "--grpc-port", "0")
        return {"grpc_ready_ms": (with_s - without_s) * 1000}


def _ready_s(stand: Stand, *flags: str) -> float:
    with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *UP, *flags, "--dir", folder], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env=environment(),
        )  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready "):
                    took_s = time.perf_counter() - started
                    has_one = any(f" {PROXY} " in command for _, command in descendants(process.pid))
                    if has_one == ("--no-grpc" in flags):
                        raise SystemExit(f"bench: grpc_start: an endpoint there: {has_one}, with {flags}")
                    return took_s
            raise SystemExit(f"bench: grpc_start: `staticfire up` ended with exit code {process.wait()}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S_MAX)


async def create_topic(namesrv: str, topic: str = TOPIC) -> None:
    """Create a topic."""
    async with Admin(namesrv, ClientSettings(protocol="rocketmq")) as admin:  # Works for Apache RocketMQ, too.
        await admin.create_topic(topic, 8)
