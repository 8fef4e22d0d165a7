"""The same JSON load for a real Apache RocketMQ on this machine: staticfire's figures as ratios of RocketMQ's.

They run one after another, each alone on the machine. RocketMQ may use all cores, staticfire's broker has one; the
generator's core is the same for both. An endpoint and its broker are two processes on both sides, and both may use all
cores. This needs a JDK and Maven, which downloads RocketMQ from Maven Central (tools/oracle.sh); without them the
comparison is skipped, with a message.
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
from benchmarks.figures.grpc import GrpcReceives, GrpcSends, create_topic
from benchmarks.figures.latency import Latency, percentile
from benchmarks.figures.pops import Pops
from benchmarks.figures.throughput import MESSAGES, THROUGHPUT, Throughput, batch_ring, send_ring
from benchmarks.report import medians, number
from benchmarks.servers import ROOT, ServerProcess, broker, environment, nameserver, proxy
from staticfire.protocol.codecs import JSON

SCRIPT = ROOT / "tools" / "oracle.sh"
BROKER_PORT, NAMESRV_PORT, PROXY_PORT = 20911, 19876, 28081
ROUNDS = 3
# A JVM compiles code that runs often. Before that it would be slower.
WARM_SECONDS = 6


@dataclass(frozen=True)
class Compared:
    """A figure, and its goal as a multiple of RocketMQ's. For latencies it is a maximum."""

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
    Compared("grpc_receive_per_s", 1.5),
]
KEYS = frozenset(compared.key for compared in COMPARED)
LATENCY, POPS, GRPC, RECEIVES = Latency(), Pops(), GrpcSends(), GrpcReceives()
ENDPOINT_KEYS = KEYS & {*GRPC.keys, *RECEIVES.keys}
CASES = [case for case in THROUGHPUT if case.codec == JSON]
CASES.insert(2, Throughput("json_batch32", batch_ring, JSON, connections=8, in_flight=4, messages=MESSAGES))


def compare(console: Console, stand: Stand, only: str = "") -> Values:
    """Measure both and print the ratios. Return nothing if RocketMQ can't be started here.

    `only`: prefixes of keys, separated by commas; empty for all.
    """
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        console.print(f"oracle: left out, {' and '.join(missing)} not found")
        return {}
    words = tuple(word for word in only.split(",") if word)
    keys = frozenset(key for key in KEYS if not words or key.startswith(words))
    if not keys:
        console.print(f"oracle: left out, nothing that is compared begins with {only}")
        return {}
    ours: list[Values] = []
    theirs: list[Values] = []
    rounds = 1 if stand.is_quick else ROUNDS
    for index in range(rounds):
        with _rocketmq(stand) as (rocketmq, endpoint):
            _measure(rocketmq, Stand(WARM_SECONDS, stand.folder, is_quick=True), keys)
            machine.wait_until_quiet()
            theirs.append(
                _measure(rocketmq, stand, keys)
                | _measure_endpoint(f"127.0.0.1:{NAMESRV_PORT}", rocketmq, endpoint, stand, keys)
            )
        machine.wait_until_quiet()
        ours.append(_measure_ours(stand, keys))
        console.print(f"[dim]oracle: round {index + 1}/{rounds}")
    return _show(console, medians(ours), medians(theirs))


def _measure(server: ServerProcess, stand: Stand, keys: frozenset[str]) -> Values:
    """Measure a broker alone."""
    values: Values = {}
    if "json_send_rtt_p50_us" in keys:
        window, _ = LATENCY.load(server, send_ring(JSON), JSON, stand)
        values["json_send_rtt_p50_us"] = percentile(window, 50)
    for case in CASES:
        if f"{case.name}_per_s" in keys:
            load, _ = case.load(server, case.ring(JSON), stand)
            values[f"{case.name}_per_s"] = load.per_s * case.messages
            values[f"{case.name}_cpu_us"] = load.cpu_us_per_answer / case.messages
    for first in FIRST_PULLS:
        if f"{first.name}_per_s" in keys:
            load = first.load(server, stand)
            values[f"{first.name}_per_s"] = load.per_s * MESSAGES
            values[f"{first.name}_cpu_us"] = load.cpu_us_per_answer / MESSAGES
    if "pop_per_s" in keys:
        load = POPS.load(server, stand)
        values["pop_per_s"], values["pop_cpu_us"] = load.per_s, load.cpu_us_per_answer
    return values


def _measure_endpoint(
    namesrv: str, server: ServerProcess, endpoint: ServerProcess, stand: Stand, keys: frozenset[str]
) -> Values:
    """Measure a gRPC endpoint in front of a broker. Sends without an OK response don't count."""
    values: Values = {}
    if not keys.isdisjoint(GRPC.keys):
        asyncio.run(create_topic(namesrv))
        GRPC.load(endpoint, Stand(WARM_SECONDS, stand.folder, is_quick=True), may_fail=True)
        values |= GRPC.load(endpoint, stand, may_fail=True)
    if not keys.isdisjoint(RECEIVES.keys):
        values |= RECEIVES.load(namesrv, server, endpoint, stand)
    return values


def _measure_ours(stand: Stand, keys: frozenset[str]) -> Values:
    values: Values = {}
    if keys - ENDPOINT_KEYS:
        with broker(stand.folder) as server:
            values |= _measure(server, stand, keys)
    if keys & ENDPOINT_KEYS:
        with (
            nameserver() as names,
            broker(stand.folder, namesrv=names.address) as server,
            proxy(names.address) as endpoint,
        ):
            for pid in (*server.pids, *endpoint.pids):
                machine.unpin(pid)
            values |= _measure_endpoint(names.address, server, endpoint, stand, keys)
    return values


def _show(console: Console, ours: Values, theirs: Values) -> Values:
    table = Table(title="beside a real RocketMQ, over JSON", title_justify="left")
    for name in ("figure", "staticfire", "RocketMQ", "ratio", "goal", "", "CPU us", "CPU us, RocketMQ"):
        table.add_column(name, justify="left" if name in ("figure", "goal", "") else "right")
    found: Values = {}
    for compared in COMPARED:
        if compared.key not in ours or compared.key not in theirs:
            continue
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
            *(_cpu(compared.key, values) for values in (ours, theirs)),
        )
    console.print(table)
    return found


def _cpu(key: str, values: Values) -> str:
    """Return the CPU time, which a busy machine affects little: of the broker, or of the endpoint alone."""
    spent_us = values.get(key.replace("_per_s", "_cpu_us"))
    return "" if spent_us is None or "_per_s" not in key else number(spent_us)


@contextmanager
def _rocketmq(stand: Stand) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Run a RocketMQ broker and its proxy. They aren't pinned, so they may use all cores."""
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
