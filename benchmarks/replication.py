"""What slaves cost: `python -m benchmarks.replication`. Master and slaves are processes of this machine.

- `plain`, `async`, `sync`: sends per second of 1 KiB with 64 in flight, and the processor time of master and slave per
  send, without a slave, with one, and with one that each send waits for
- `sync_limit`: the largest ratio of `sync` to `plain` that two cores allow: processor time of master, slave and load on
  both, beside what the busier of master and load takes without a slave
- `lag`: the time until a slave has what its master had, while 100,000 messages of 1 KiB per second are sent
- `failover`: the time from the end of a master until our producer's next message is stored, with `--failover auto`

On a machine of few cores load, master and slave share them, and the slave's own work is missing from the master's
rate: the processor time per send is the figure to compare.
"""

import argparse
import asyncio
import json
import os
import threading
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
from staticfire.protocol.requests.replication import GetReplication
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool

TOPIC = "bench"
IN_FLIGHT = 64
LAG_PER_S = 100_000
LAG_IN_FLIGHT = 8_192
LOOK_S = 0.01
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


def load_at_pace(running: Cluster, seconds: float) -> float:
    """Send LAG_PER_S messages per second; return how many were answered per second."""
    connection = LoadConnection(master_of(running).port, NATIVE, frames.sends(NATIVE, TOPIC))
    began_s, sent = time.perf_counter(), 0
    try:
        while (elapsed_s := time.perf_counter() - began_s) < seconds:
            due = min(int(elapsed_s * LAG_PER_S) - sent, LAG_IN_FLIGHT - connection.in_flight)
            if due > 0:
                connection.send(due)
                sent += due
            if connection.in_flight:
                connection.receive()
            else:
                time.sleep(1 / LAG_PER_S)
        while connection.in_flight:
            connection.receive()
        return sent / (time.perf_counter() - began_s)
    finally:
        connection.close()


async def lags_ms(master: str, slave: str, is_over: threading.Event) -> list[float]:
    """Return how long the slave took to have what its master had, at each look."""
    pool, found = ConnectionPool(live_machine()), []
    try:
        while not is_over.is_set():
            end = (await pool.ask(master, GetReplication())).body.end_position
            began_s = time.perf_counter()
            while (await pool.ask(slave, GetReplication())).body.end_position < end:
                pass
            found.append((time.perf_counter() - began_s) * 1_000)
            await asyncio.sleep(LOOK_S)
    finally:
        await pool.close()
    return found


def measure_lag(running: Cluster, seconds: float) -> tuple[float, list[float]]:
    """Return the sends per second, and the lags of the slave meanwhile."""
    found: list[float] = []
    is_over = threading.Event()
    addresses = running.broker("broker-a").address, running.broker("broker-a").replica(1).address
    watch = threading.Thread(target=lambda: found.extend(asyncio.run(lags_ms(*addresses, is_over))))
    watch.start()
    try:
        per_s = load_at_pace(running, seconds)
    finally:
        is_over.set()
        watch.join()
    return per_s, sorted(found)


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replication")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        with cluster(0) as running:
            plain = load(running, arguments.seconds)
        with cluster(1) as running:
            asynchronous = load(running, arguments.seconds)
            paced_per_s, lags = measure_lag(running, arguments.seconds)
        with cluster(1, **SYNC) as running:
            synchronous = load(running, arguments.seconds)
        with cluster(1, failover="auto") as running:
            gone_ms = asyncio.run(failover_ms(running))
        rounds.append(
            {
                "plain_per_s": plain.per_s, "async_per_s": asynchronous.per_s, "sync_per_s": synchronous.per_s,
                "plain_cpu_us": plain.cpu_us, "async_cpu_us": asynchronous.cpu_us, "sync_cpu_us": synchronous.cpu_us,
                "async_slave_us": asynchronous.slave_us, "sync_slave_us": synchronous.slave_us,
                "load_us": synchronous.load_us, "sync_limit": sync_limit(plain, synchronous),
                "async_cpu_ratio": asynchronous.cpu_us / plain.cpu_us, "sync_ratio": synchronous.per_s / plain.per_s,
                "lag_at_per_s": paced_per_s, "lag_p50_ms": lags[len(lags) // 2],
                "lag_p99_ms": lags[len(lags) * 99 // 100],
                "failover_ms": gone_ms,
            }
        )  # fmt: skip
        print(json.dumps({name: round(value, 2) for name, value in rounds[-1].items()}), flush=True)
    print(json.dumps({name: round(median(one[name] for one in rounds), 2) for name in rounds[0]}))


if __name__ == "__main__":
    main()
