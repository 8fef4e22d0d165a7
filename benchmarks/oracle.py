"""The same JSON load against a real Apache RocketMQ on this machine: our figures as ratios of its.

They run in turn, each alone on the machine. It may use all cores while ours has one; the generator's core is the same
for both. Needs a JDK and Maven, which bring it from Maven Central (tools/oracle.sh); without them this says so and is
left out.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.figures import Stand, Values
from benchmarks.figures.first_pull import FIRST_PULLS
from benchmarks.figures.grpc import GrpcSends, create_topic
from benchmarks.figures.latency import Latency, percentile
from benchmarks.figures.throughput import MESSAGES, THROUGHPUT, Throughput, batch_ring, send_ring
from benchmarks.report import medians, number
from benchmarks.servers import ROOT, ServerProcess, broker, environment
from staticfire.protocol.codecs import JSON

SCRIPT = ROOT / "tools" / "oracle.sh"
BROKER_PORT, NAMESRV_PORT, PROXY_PORT = 20911, 19876, 28081
ROUNDS = 3
WARM_SECONDS = 6
# A JVM compiles what it runs often: measured before that, it would be itself that is slow.


@dataclass(frozen=True)
class Compared:
    """A figure and how many times RocketMQ's it should be; for latencies, at most."""

    key: str
    goal: float


COMPARED = [
    Compared("json_send_rtt_p50_us", 0.4),
    Compared("json_send_c1_per_s", 3),
    Compared("json_send_c8_per_s", 3),
    Compared("json_batch32_per_s", 2.5),
    Compared("json_pull32_first_c1_per_s", 1.2),
    Compared("json_pull32_first_c4_per_s", 1.0),
    Compared("json_pull32_per_s", 1.5),
    Compared("pop_per_s", 1.0),
    Compared("grpc_send_per_s", 1.5),
]
GRPC = GrpcSends()
CASES = [case for case in THROUGHPUT if case.codec == JSON]
CASES.insert(2, Throughput("json_batch32", batch_ring, JSON, connections=8, in_flight=4, messages=MESSAGES))


def compare(console: Console, stand: Stand) -> Values:
    """Measure both and print the ratios; nothing when RocketMQ can't be started here."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        console.print(f"oracle: left out, {' and '.join(missing)} not found")
        return {}
    ours: list[Values] = []
    theirs: list[Values] = []
    for index in range(ROUNDS):
        with _rocketmq(stand) as (rocketmq, endpoint):
            _measure(rocketmq, Stand(WARM_SECONDS, stand.folder, is_quick=True))
            machine.wait_until_quiet()
            theirs.append(_measure(rocketmq, stand))
            asyncio.run(create_topic(f"127.0.0.1:{NAMESRV_PORT}"))
            GRPC.load(endpoint, Stand(WARM_SECONDS, stand.folder, is_quick=True))
            theirs[-1] |= GRPC.load(endpoint, stand)
        machine.wait_until_quiet()
        ours.append(_measure_ours(stand))
        console.print(f"[dim]oracle: round {index + 1}/{ROUNDS}")
    return _show(console, medians(ours), medians(theirs))


def _measure(server: ServerProcess, stand: Stand) -> Values:
    window, _ = Latency().load(server, send_ring(JSON), JSON, stand)
    values = {"json_send_rtt_p50_us": percentile(window, 50)}
    for case in CASES:
        load, _ = case.load(server, case.ring(JSON), stand)
        values[f"{case.name}_per_s"] = load.per_s * case.messages
    for first in FIRST_PULLS:
        values[f"{first.name}_per_s"] = first.load(server, stand).per_s * MESSAGES
    return values


def _measure_ours(stand: Stand) -> Values:
    with broker(stand.folder) as server:
        values = _measure(server, stand)
    return values | GRPC.measure(stand)


def _show(console: Console, ours: Values, theirs: Values) -> Values:
    table = Table(title="beside a real RocketMQ, over JSON", title_justify="left")
    for name in ("figure", "staticfire", "RocketMQ", "ratio", "goal", ""):
        table.add_column(name, justify="right" if name in ("staticfire", "RocketMQ", "ratio") else "left")
    found: Values = {}
    for compared in COMPARED:
        ratio = found[compared.key] = ours[compared.key] / theirs[compared.key]
        is_latency = compared.key.endswith("_us")
        met = ratio <= compared.goal if is_latency else ratio >= compared.goal
        table.add_row(
            compared.key,
            number(ours[compared.key]),
            number(theirs[compared.key]),
            f"{ratio:.2f}",
            f"{'<=' if is_latency else '>='} {compared.goal:g}",
            "[green]met" if met else "[red]missed",
        )
    console.print(table)
    return found


@contextmanager
def _rocketmq(stand: Stand) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Run a RocketMQ: its broker, and its proxy. They aren't pinned: they may use what they can."""
    with tempfile.TemporaryDirectory(dir=stand.folder, prefix="staticfire-bench-") as folder:
        settings = environment() | {"BROKER_PORT": str(BROKER_PORT), "NAMESRV_PORT": str(NAMESRV_PORT)}
        settings |= {"PROXY": "1", "PROXY_PORT": str(PROXY_PORT)}

        def script(command: str) -> None:
            subprocess.run([str(SCRIPT), command, folder], env=settings, check=True, preexec_fn=_all_cores)

        try:
            script("start")
            pids = tuple(map(int, Path(folder, "pids").read_text().split()))
            yield ServerProcess(pids[:2], BROKER_PORT), ServerProcess(pids[2:], PROXY_PORT)
        finally:
            script("stop")


def _all_cores() -> None:
    os.sched_setaffinity(0, machine.ALL_CORES)
