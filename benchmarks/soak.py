"""Half load for minutes, members coming and going, old messages removed: does anything grow? `make soak MINUTES=10`.

The cluster is started as by `staticfire up`. Messages are sent at a constant rate, half of what this machine can
handle. A group always has two members; every few seconds another one joins and leaves. Message time runs so fast that
segments are old, and removed, after seconds. Memory, descriptors, and the latency from a send to its listener are
recorded every few seconds, and the second half of the run is compared with the first. The exit code is 1 when something
has grown, or a message is missing.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.machine import anonymous_mib
from staticfire import (
    Cluster,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)

TOPIC, GROUP = "soak", "soak-desk"
BODY_BYTES, QUEUES = 1024, 8
CALIBRATE_S = 2.0
SENDERS = 32
# The fraction of the rate that the machine reached in the calibration.
PACE = 0.5
TICK_S = 0.02
LOOK_S = 5.0
MEMBER_STAYS_S, MEMBER_AWAY_S = 6.0, 2.0
SETTLE_S_MAX = 30.0
SEGMENT_BYTES = 32 * 1024 * 1024
CLOCK_RATE = 300.0
# Hours of message time, which are twelve seconds of real time.
RESERVED_HOURS = 1
EACH_HOUR = ";".join(f"{hour:02}" for hour in range(24))
# The fraction of looks that are left out, while tables and caches grow to their size.
WARM_PART = 0.2
GROWS_MIB_MAX, GROWS_DESCRIPTORS_MAX, GROWS_LATENCY_MAX = 8.0, 8, 1.5
RESULTS = Path(__file__).parent / "results" / "soak.json"
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Look:
    """The state at one moment."""

    second: float
    servers_mib: float
    own_mib: float
    descriptors: int
    """The number of the servers' descriptors."""
    latency_us: float
    """The median from a send to its listener, since the look before."""
    consumed: int


class Soak:
    """One run."""

    def __init__(self, cluster: Cluster, minutes: float) -> None:
        self._cluster = cluster
        self._ends_at = time.monotonic() + minutes * 60
        self._sent = 0
        self._seen = bytearray()
        self._first = self._consumed = 0
        self._latencies_us: list[float] = []
        self.looks: list[Look] = []

    async def run(self, console: Console) -> None:
        """Send, consume, and record the state."""
        namesrv = self._cluster.namesrv
        async with Producer("soak", namesrv=namesrv) as producer:
            per_s = await self._calibrate(producer)
            console.print(f"{per_s:,.0f} messages/s are sent, half of what this machine takes")
            async with self._member(), self._member():
                started = time.monotonic()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._send(producer, per_s))
                    tasks.create_task(self._come_and_go())
                    tasks.create_task(self._look(console, started))
                await self._wait_for_the_rest()

    @property
    def missing(self) -> int:
        """The number of messages that were acknowledged but not consumed."""
        return self._sent - self._first

    @property
    def again(self) -> int:
        """The number of deliveries of messages that had been consumed before."""
        return self._consumed - self._first

    async def _calibrate(self, producer: Producer) -> float:
        ends_at = time.monotonic() + CALIBRATE_S

        async def send_on() -> int:
            sent = 0
            while time.monotonic() < ends_at:
                await producer.send(Message("soak-calibration", bytes(BODY_BYTES)))
                sent += 1
            return sent

        # Halved again, since consuming needs as much of the machine as sending.
        return sum(await asyncio.gather(*[send_on() for _ in range(SENDERS)])) / CALIBRATE_S * PACE / 2

    def _member(self) -> PushConsumer:
        consumer = PushConsumer(GROUP, namesrv=self._cluster.namesrv)
        consumer.subscribe(TOPIC)
        consumer.listener(self._consume)
        return consumer

    async def _consume(self, messages: Sequence[ReceivedMessage], _: ConsumeContext) -> ConsumeStatus:
        now_ns = time.monotonic_ns()
        for message in messages:
            number, sent_ns = map(int, message.body[:40].split())
            self._first += not self._seen[number]
            self._seen[number] = 1
            self._consumed += 1
            self._latencies_us.append((now_ns - sent_ns) / 1000)
        return ConsumeStatus.CONSUME_SUCCESS

    async def _send(self, producer: Producer, per_s: float) -> None:
        started = time.monotonic()
        while (now := time.monotonic()) < self._ends_at:
            due = int((now - started) * per_s) - self._sent
            if due > 0:
                self._seen.extend(bytes(due))
                await asyncio.gather(*[producer.send(self._message(self._sent + index)) for index in range(due)])
                self._sent += due
            await asyncio.sleep(TICK_S)

    def _message(self, number: int) -> Message:
        return Message(TOPIC, f"{number} {time.monotonic_ns()} ".encode().ljust(BODY_BYTES))

    async def _come_and_go(self) -> None:
        while time.monotonic() < self._ends_at - MEMBER_STAYS_S:
            await asyncio.sleep(MEMBER_AWAY_S)
            async with self._member():
                await asyncio.sleep(MEMBER_STAYS_S)

    async def _look(self, console: Console, started: float) -> None:
        while time.monotonic() < self._ends_at:
            await asyncio.sleep(min(LOOK_S, max(0.1, self._ends_at - time.monotonic())))
            latencies_us, self._latencies_us = self._latencies_us, []
            pids = list(self._cluster.pids.values())
            look = Look(
                time.monotonic() - started,
                sum(map(anonymous_mib, pids)),
                anonymous_mib(os.getpid()),
                sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
                median(latencies_us) if latencies_us else 0.0,
                self._consumed,
            )
            self.looks.append(look)
            console.print(
                f"[dim]{look.second:5.0f} s  servers {look.servers_mib:.1f} MiB, {look.descriptors} descriptors  "
                f"listener p50 {look.latency_us:,.0f} us  consumed {look.consumed:,}"
            )

    async def _wait_for_the_rest(self) -> None:
        ends_at = time.monotonic() + SETTLE_S_MAX
        while self.missing and time.monotonic() < ends_at:  # noqa: ASYNC110 (the end of a measurement)
            await asyncio.sleep(0.1)


def judge(looks: Sequence[Look]) -> list[str]:
    """Describe what grew from the first half of a run to the second."""
    settled = looks[int(len(looks) * WARM_PART) :]
    first, second = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    if not first:
        return ["too short to be judged: a minute at least"]
    found = []
    for what, of, most in (
        ("memory of the servers (MiB)", lambda look: look.servers_mib, GROWS_MIB_MAX),
        ("descriptors", lambda look: look.descriptors, GROWS_DESCRIPTORS_MAX),
    ):
        before, after = median(map(of, first)), median(map(of, second))
        if after - before > most:
            found.append(f"{what} grew from {before:.1f} to {after:.1f}")
    before, after = (median(look.latency_us for look in half) for half in (first, second))
    if after > before * GROWS_LATENCY_MAX:
        found.append(f"the latency of a listener grew from {before:,.0f} to {after:,.0f} us")
    return found


def plot(values: Sequence[float], width: int = 60) -> str:
    """Return a line of bars, from 0 to the highest value."""
    step = max(1, -(-len(values) // width))
    means = [sum(part) / len(part) for at in range(0, len(values), step) if (part := values[at : at + step])]
    highest = max(means, default=0.0) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(mean / highest * len(BARS)))] for mean in means)


def show(console: Console, soak: Soak, faults: Sequence[str]) -> None:
    """Print the results of the run."""
    table = Table(title=f"{len(soak.looks)} looks", title_justify="left")
    for name in ("", "least", "median", "most", "from start to end"):
        table.add_column(name, justify="left" if name in ("", "from start to end") else "right")
    for name, values in (
        ("memory of the servers, MiB", [look.servers_mib for look in soak.looks]),
        ("descriptors of the servers", [float(look.descriptors) for look in soak.looks]),
        ("send to listener, p50, us", [look.latency_us for look in soak.looks]),
    ):
        if values:
            table.add_row(name, *(f"{one:,.1f}" for one in (min(values), median(values), max(values))), plot(values))
    console.print(table)
    consumed = soak.looks[-1].consumed if soak.looks else 0
    console.print(f"{consumed:,} messages were consumed, {soak.again:,} of them again; {soak.missing:,} are missing")
    for fault in faults:
        console.print(f"[red]{fault}")


def main() -> int:
    """Parse the arguments, run, print. Return 1 when something grew or is missing."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--dir", help="below which folder the store lies (default: the temporary one)")
    arguments = parser.parse_args()
    console = Console()
    settings = {
        "mappedFileSizeCommitLog": SEGMENT_BYTES, "fileReservedTime": RESERVED_HOURS, "deleteWhen": EACH_HOUR,
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory(dir=arguments.dir, prefix="staticfire-soak-") as folder,
        Cluster(settings=settings, isolation="process", directory=folder) as cluster,
    ):
        cluster.create_topic(TOPIC, QUEUES)
        cluster.clock.scale(CLOCK_RATE)
        soak = Soak(cluster, arguments.minutes)
        asyncio.run(soak.run(console))
    faults = judge(soak.looks)
    if soak.missing:
        faults.append(f"{soak.missing:,} acknowledged messages were not consumed")
    show(console, soak, faults)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(look) for look in soak.looks], indent=1) + "\n")
    console.print(f"written: {RESULTS}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
