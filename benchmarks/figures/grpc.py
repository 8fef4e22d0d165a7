"""The gRPC endpoint: sends of RocketMQ 5's clients, what it adds to a start, and its memory.

Nameserver, broker and endpoint share the servers' core.
"""

import asyncio
import signal
import ssl
import subprocess
import sys
import tempfile
import time

from benchmarks.figures import Stand, Values
from benchmarks.figures.throughput import WARM_SECONDS
from benchmarks.grpc_load import load_sends
from benchmarks.machine import cpu_ns, descendants, pss_mib
from benchmarks.servers import ROOT, STOP_S_MAX, ServerProcess, broker, environment, nameserver, proxy
from staticfire.client.admin.admin import Admin
from staticfire.client.cluster.settings import ClientSettings

TOPIC = "bench"
CONNECTIONS, IN_FLIGHT = 8, 32
UP = ["-m", "staticfire", "up", "--namesrv-port", "0", "--broker-port", "0", "--control-port", "0"]
PROXY = "staticfire.proxy"


class GrpcSends:
    """grpc_send_per_s, and the endpoint's CPU time of each."""

    name = "grpc_sends"
    keys = ("grpc_send_per_s", "grpc_send_cpu_us", "grpc_pss_mib")

    def measure(self, stand: Stand) -> Values:
        with (
            nameserver() as names,
            broker(stand.folder, namesrv=names.address),
            proxy(names.address) as endpoint,
        ):
            asyncio.run(create_topic(names.address))
            ssl.get_server_certificate(("127.0.0.1", endpoint.port))  # Memory is that of one who has spoken TLS.
            values = self.load(endpoint, stand)
            return {**values, "grpc_pss_mib": pss_mib(endpoint.pids[0])}

    def load(self, endpoint: ServerProcess, stand: Stand) -> Values:
        """Send through an endpoint whose cluster has the topic."""
        asyncio.run(load_sends(endpoint.port, TOPIC, CONNECTIONS, IN_FLIGHT, WARM_SECONDS, may_fail=True))
        before = cpu_ns(endpoint.pids[-1])
        sent, took_s = asyncio.run(load_sends(endpoint.port, TOPIC, CONNECTIONS, IN_FLIGHT, stand.seconds))
        spent_us = (cpu_ns(endpoint.pids[-1]) - before) / 1000
        return {"grpc_send_per_s": sent / took_s, "grpc_send_cpu_us": spent_us / sent}


class GrpcStart:
    """grpc_ready_ms: how much later `staticfire up` is ready for it."""

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


async def create_topic(namesrv: str) -> None:
    """Create the topic that is sent to."""
    async with Admin(namesrv, ClientSettings(protocol="rocketmq")) as admin:  # RocketMQ's own, too.
        await admin.create_topic(TOPIC, 8)
