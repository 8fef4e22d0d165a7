"""What slaves cost: `python -m benchmarks.replication`. Master and slaves are processes of this machine.

- `plain`, `async`, `sync`: sends per second of 1 KiB with 64 in flight, and the processor time of master and slave per
  send, without a slave, with one, and with one that each send waits for
- `sync_limit`: the largest ratio of `sync` to `plain` that two cores allow: processor time of master, slave and load on
  both, beside what the busier of master and load takes without a slave
- `paced`: the processor time of the master per send, with and without a slave, at 100,000 sends of 1 KiB per second,
  a thousandth of them each millisecond
- `lag`: the time until a slave has what its master had, under the same load
- `failover`: the time from the end of a master until our producer's next message is stored, with `--failover auto`

On a machine of few cores load, master and slave share them, and the slave's own work is missing from the master's
rate: the processor time per send is the figure to compare. As fast as possible, the master of two cores also waits for
the load more often, and then takes fewer sends at once: `paced` compares the same work.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from benchmarks import frames
from benchmarks.load import LoadConnection, LoadWindow, run_window
from benchmarks.machine import cpu_ns
from benchmarks.servers import ServerProcess
from staticfire import Cluster, Message, Producer
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.errors import StaticfireError

TOPIC = "bench"
IN_FLIGHT = 64
LAG_PER_S = 100_000
LAG_IN_FLIGHT = 8_192
TICK_S = 0.001
CORES = 2
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
RETRY_S = 0.005
FAILOVER_S_MAX = 10.0


@dataclass
class Figures:
    """The result of one measurement."""

    per_s: float
    cpu_us: float
    """Processor time of the master per send."""
    load_us: float = 0.0
    slave_us: float = 0.0
    """Processor time of the load and of the slave per send."""


@contextmanager
def cluster(replicas: int, failover: str = "manual", **settings: str) -> Iterator[Cluster]:
    """Run a cluster with processes of its own, and the topic."""
    with Cluster(replicas=replicas, failover=failover, settings=settings, isolation="process") as running:
        running.create_topic(TOPIC, queues=frames.QUEUES)
        yield running


def load(running: Cluster, seconds: float) -> Figures:
    """Send as fast as possible to the master. The first tenth is left out."""
    server = master_of(running)
    connection = LoadConnection(server.port, NATIVE, frames.sends(NATIVE, TOPIC))
    try:
        run_window(server, [connection], IN_FLIGHT, seconds / 10)
        others = os.getpid(), running.pids.get("broker-a-1", 0)
        began = [cpu_ns(pid) if pid else 0 for pid in others]
        window: LoadWindow = run_window(server, [connection], IN_FLIGHT, seconds)
        used = [(cpu_ns(pid) if pid else 0) - before for pid, before in zip(others, began, strict=True)]
    finally:
        connection.close()
    return Figures(window.per_s, window.cpu_us_per_answer, *(ns / 1000 / window.answers for ns in used))


def master_of(running: Cluster) -> ServerProcess:
    """Return the process of the master."""
    address = running.broker("broker-a").address
    return ServerProcess((running.pids["broker-a"],), int(address.rpartition(":")[2]))


def load_at_pace(running: Cluster, seconds: float) -> Figures:
    """Send LAG_PER_S messages per second, those of each TICK_S at once."""
    server = master_of(running)
    connection = LoadConnection(server.port, NATIVE, frames.sends(NATIVE, TOPIC))
    began_s, began_ns, sent = time.perf_counter(), cpu_ns(server.pids[0]), 0
    try:
        while (elapsed_s := time.perf_counter() - began_s) < seconds:
            due = min(int(elapsed_s * LAG_PER_S) - sent, LAG_IN_FLIGHT)
            connection.send(due)
            sent += due
            while connection.in_flight:
                connection.receive()
            time.sleep(TICK_S - (time.perf_counter() - began_s) % TICK_S)
    finally:
        connection.close()
    return Figures(sent / (time.perf_counter() - began_s), (cpu_ns(server.pids[0]) - began_ns) / 1000 / sent)


def measure_lag(running: Cluster, seconds: float) -> tuple[float, list[float]]:
    """Return the sends per second, and the lags of the slave meanwhile."""
    broker = running.broker("broker-a")
    command = [sys.executable, "-m", "benchmarks.copy_lag", broker.address, broker.replica(1).address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        per_s = load_at_pace(running, seconds).per_s
        found, _ = watcher.communicate()
    return per_s, sorted(json.loads(found))


def sync_limit(plain: Figures, synchronous: Figures) -> float:
    """Return the largest ratio of synchronous to plain sends that the cores allow."""
    together_us = (synchronous.cpu_us + synchronous.load_us + synchronous.slave_us) / CORES
    return max(plain.cpu_us, plain.load_us) / max(together_us, synchronous.cpu_us)


async def failover_ms(running: Cluster) -> float:
    """Return the time from the end of the master until a message is stored."""
    async with Producer("bench", running.namesrv) as producer:
        await producer.send(Message(TOPIC, b"before"))
        await asyncio.sleep(1)
        running.broker("broker-a").kill()
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < FAILOVER_S_MAX:
            try:
                await producer.send(Message(TOPIC, b"after"))
            except StaticfireError:
                await asyncio.sleep(RETRY_S)
            else:
                return (time.perf_counter() - began_s) * 1_000
    raise RuntimeError(f"no slave took over within {FAILOVER_S_MAX:.0f} s")


def measure(seconds: float) -> dict[str, float]:
    """Return all figures of one round."""
    with cluster(0) as running:
        plain, plain_paced = load(running, seconds), load_at_pace(running, seconds)
    with cluster(1) as running:
        asynchronous, paced = load(running, seconds), load_at_pace(running, seconds)
        lag_per_s, lags = measure_lag(running, seconds)
    with cluster(1, **SYNC) as running:
        synchronous = load(running, seconds)
    with cluster(1, failover="auto") as running:
        gone_ms = asyncio.run(failover_ms(running))
    return {
        "plain_per_s": plain.per_s, "async_per_s": asynchronous.per_s, "sync_per_s": synchronous.per_s,
        "plain_cpu_us": plain.cpu_us, "async_cpu_us": asynchronous.cpu_us, "sync_cpu_us": synchronous.cpu_us,
        "async_slave_us": asynchronous.slave_us, "sync_slave_us": synchronous.slave_us,
        "load_us": synchronous.load_us, "sync_limit": sync_limit(plain, synchronous),
        "async_cpu_ratio": asynchronous.cpu_us / plain.cpu_us, "sync_ratio": synchronous.per_s / plain.per_s,
        "plain_paced_us": plain_paced.cpu_us, "async_paced_us": paced.cpu_us,
        "paced_cpu_ratio": paced.cpu_us / plain_paced.cpu_us, "paced_per_s": paced.per_s, "lag_at_per_s": lag_per_s,
        "lag_p50_ms": lags[len(lags) // 2], "lag_p99_ms": lags[len(lags) * 99 // 100],
        "failover_ms": gone_ms,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replication")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append(measure(arguments.seconds))
        print(json.dumps({name: round(value, 2) for name, value in rounds[-1].items()}), flush=True)
    print(json.dumps({name: round(median(one[name] for one in rounds), 2) for name in rounds[0]}))


if __name__ == "__main__":
    main()
