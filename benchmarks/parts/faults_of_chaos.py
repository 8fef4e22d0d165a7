"""What the faults of `staticfire chaos` cost a broker: the same load with and without them, in turns.

    python -m benchmarks.parts.faults_of_chaos [--rounds 4] [--seconds 5] [--rate 500] [--per-minute 1000]

One producer sends at a fixed rate, and one push consumer consumes. In every other turn, faults of *mild* are planned
from seeds, sent to the broker as a run does it, counted, and removed. What is printed is the broker's CPU time per
message in both turns, and how many faults have hit in a minute. Both turns have the settings of a run: all requests are
recorded. The reaction of clients is part of the cost: they connect again, send again, consume again.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.machine import cpu_ns
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.kinds import MILD
from staticfire.chaos.member import CLIENT_ID
from staticfire.chaos.running import SETTINGS
from staticfire.chaos.striking import Striking
from staticfire.chaos.usage import GroupUsage, Usage
from staticfire.chaos.weather import plan
from staticfire.client import ConsumeContext, ConsumeStatus, Message, Producer, PushConsumer, ReceivedMessage
from staticfire.cluster.async_cluster import AsyncCluster
from staticfire.cluster.cluster import Cluster
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool

TOPIC, GROUP = "orders", "billing"
# A seed draws 3 to 5 faults.
FAULTS_PER_SEED = 4
FIRST_MESSAGES = 200
# A consumer commits every 5 s, so these faults would wait for most of the time.
RARE = ("lost-commit", "handover")


@dataclass
class Turn:
    """What was spent in the turns of one kind."""

    cpu_ns: int = 0
    messages: int = 0
    struck: int = 0
    seconds: float = 0.0

    @property
    def us(self) -> float:
        """CPU time per message."""
        return self.cpu_ns / 1_000 / max(1, self.messages)


class Load:
    """A producer and a consumer. `rate`: messages per second."""

    def __init__(self, cluster: AsyncCluster, rate: float) -> None:
        self.producer = Producer("shop", cluster.namesrv)
        self.consumer = PushConsumer(GROUP, cluster.namesrv)
        self.consumer.subscribe(TOPIC)
        self._rate = rate
        self._sends: set[asyncio.Task[None]] = set()

        @self.consumer.listener
        async def done(_: tuple[ReceivedMessage, ...], __: ConsumeContext) -> ConsumeStatus:
            return ConsumeStatus.CONSUME_SUCCESS

    async def run(self, seconds: float) -> int:
        """Send for some seconds at the rate; return the number of messages. A send that fails counts, too."""
        began_s, sent = time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < seconds:
            while sent < passed_s * self._rate:
                task = asyncio.create_task(self._send())
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
                sent += 1
            await asyncio.sleep(0.002)
        await asyncio.gather(*self._sends)
        return sent

    async def _send(self) -> None:
        try:
            await self.producer.send(Message(TOPIC, b"1 book"))
        except StaticfireError:
            pass  # A fault may be the reason.


async def strike(
    cluster: AsyncCluster, tails: JournalTails, rate: float, per_minute: float, seconds: float, seed: int
) -> int:
    """Carry out the faults of seeds for some seconds; return how many have hit."""
    struck, window_s = 0, FAULTS_PER_SEED * 60 / per_minute
    until_s = time.monotonic() + seconds
    while (began_s := time.monotonic()) < until_s:
        # Positions are drawn from what happens in the first part of a window.
        often = max(1, int(rate * window_s / 4))
        group = GroupUsage(Counter({TOPIC: often}), max(1, often // 50), 0, max(1, often // 10), 0, {"one"})
        usage = Usage(Counter({TOPIC: often}), {GROUP: group}, brokers=("broker-a",))
        striking = Striking(cluster, tails, plan(seed, usage, MILD, never=RARE))
        seed += 1
        await striking.prepare()
        watch = asyncio.create_task(striking.watch())
        await asyncio.sleep(max(0.0, began_s + window_s - time.monotonic()))
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await striking.finish()
        struck += sum(one.hits > 0 for one in striking.struck)
        tails.forget()
    return struck


async def measure(rounds: int, seconds: float, rate: float, per_minute: float) -> tuple[Turn, Turn]:
    """Return what the turns without and with faults have cost."""
    calm, faulty = Turn(), Turn()
    async with Cluster(1, SETTINGS, isolation="process", grpc=False) as cluster:
        await cluster.create_topic(TOPIC, 4)
        pid = cluster.pids["broker-a"]
        machine = live_machine()
        pool = ConnectionPool(machine)
        tails = JournalTails(pool, cluster.addresses, [CLIENT_ID])
        load = Load(cluster, rate)
        async with load.producer, load.consumer:
            await load.run(FIRST_MESSAGES / rate)
            for number in range(rounds * 2):
                turn = faulty if number % 2 else calm
                began_ns, began_s = cpu_ns(pid), time.monotonic()
                faults = (
                    asyncio.create_task(strike(cluster, tails, rate, per_minute, seconds, number * 1_000))
                    if turn is faulty
                    else None
                )
                turn.messages += await load.run(seconds)
                if faults is not None:
                    turn.struck += await faults
                turn.cpu_ns += cpu_ns(pid) - began_ns
                turn.seconds += time.monotonic() - began_s
        await pool.close()
        await machine.workers.close()
    return calm, faulty


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--per-minute", type=float, default=1_000.0)
    given = parser.parse_args()
    # As in a run of `staticfire chaos`: each fault is expected there.
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "critical")
    calm, faulty = asyncio.run(measure(given.rounds, given.seconds, given.rate, given.per_minute))
    print(
        f"without faults {calm.us:.1f} us per message; with {faulty.struck * 60 / faulty.seconds:,.0f} a minute"
        f" {faulty.us:.1f} us; ratio {faulty.us / calm.us:.3f}"
    )


if __name__ == "__main__":
    main()
