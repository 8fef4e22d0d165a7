"""What the faults of `staticfire chaos` cost a broker: the same load with and without them, in turns.

    python -m benchmarks.parts.faults_of_chaos [--rounds 4] [--seconds 5] [--rate 500] [--per-minute 3000]
        [--only duplicate,busy]

One producer sends at a fixed rate, and one push consumer consumes. In every other turn, faults of *mild* are planned
from seeds, sent to the broker as a run does it, counted, and removed. What is printed is the broker's CPU time per
message in both turns, and how many faults have hit in a minute. Both turns have the settings of a run: all requests are
recorded. The reaction of clients is part of the cost: they connect again, send again, consume again. A turn ends when
everything that it sent is consumed. About half of the planned faults hit: the others wait for a position that doesn't
come in their window.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass

from benchmarks.machine import cpu_ns
from staticfire.chaos.injection import FaultInjection
from staticfire.chaos.journals import JournalTails
from staticfire.chaos.kinds import MILD
from staticfire.chaos.member import CLIENT_ID
from staticfire.chaos.running import SETTINGS
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
CONSUMED_S = 60
# A consumer commits every 5 s, so these faults would wait for most of the time.
RARE = ("lost-commit", "handover")


@dataclass
class Turn:
    """What was spent in the turns of one kind."""

    cpu_ns: int = 0
    messages: int = 0
    injected: int = 0
    seconds: float = 0.0

    @property
    def us(self) -> float:
        """CPU time per message."""
        return self.cpu_ns / 1_000 / max(1, self.messages)

    @property
    def cores(self) -> float:
        """The part of a core that the broker used."""
        return self.cpu_ns / 1e9 / self.seconds


class Load:
    """A producer and a consumer. `rate`: messages per second."""

    def __init__(self, cluster: AsyncCluster, rate: float) -> None:
        self.producer = Producer("shop", cluster.namesrv)
        self.consumer = PushConsumer(GROUP, cluster.namesrv)
        self.consumer.subscribe(TOPIC)
        self._rate = rate
        self._sends: set[asyncio.Task[None]] = set()
        self._open: set[bytes] = set()
        self._sent = 0

        @self.consumer.listener
        async def done(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            self._open.difference_update(message.body for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

    async def run(self, seconds: float) -> int:
        """Send for some seconds at the rate, and wait until all is consumed; return the number of messages.

        A send that fails counts, too.
        """
        began_s, sent = time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < seconds:
            while sent < passed_s * self._rate:
                task = asyncio.create_task(self._send())
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
                sent += 1
            await asyncio.sleep(0.002)
        await asyncio.gather(*self._sends)
        async with asyncio.timeout(CONSUMED_S):
            while self._open:  # noqa: ASYNC110 (a fault may be the reason that nothing comes)
                await asyncio.sleep(0.02)
        return sent

    async def _send(self) -> None:
        self._sent += 1
        body = b"%d books" % self._sent
        self._open.add(body)
        try:
            await self.producer.send(Message(TOPIC, body))
        except StaticfireError:
            self._open.discard(body)  # A fault may be the reason.


async def inject(cluster: AsyncCluster, tails: JournalTails, given: argparse.Namespace, seed: int) -> int:
    """Carry out the faults of seeds for some seconds; return how many have hit."""
    injected, window_s = 0, FAULTS_PER_SEED * 60 / given.per_minute
    only = [name for name in given.only.split(",") if name]
    until_s = time.monotonic() + given.seconds
    while (began_s := time.monotonic()) < until_s:
        # Positions are drawn from what happens in the first part of a window.
        often = max(1, int(given.rate * window_s / 4))
        group = GroupUsage(Counter({TOPIC: often}), max(1, often // 50), 0, max(1, often // 10), 0, {"one"})
        usage = Usage(Counter({TOPIC: often}), {GROUP: group}, brokers=("broker-a",))
        injection = FaultInjection(cluster, tails, plan(seed, usage, MILD, only, RARE))
        seed += 1
        await injection.prepare()
        injection.start()
        await asyncio.sleep(max(0.0, began_s + window_s - time.monotonic()))
        await injection.finish()
        injected += sum(one.hits > 0 for one in injection.injected)
        tails.forget()
    return injected


async def measure(given: argparse.Namespace) -> tuple[Turn, Turn]:
    """Return what the turns without and with faults have cost."""
    calm, faulty = Turn(), Turn()
    async with Cluster(1, SETTINGS, isolation="process", grpc=False) as cluster:
        await cluster.create_topic(TOPIC, 4)
        pid = cluster.pids["broker-a"]
        machine = live_machine()
        pool = ConnectionPool(machine)
        tails = JournalTails(pool, cluster.addresses, [CLIENT_ID])
        load = Load(cluster, given.rate)
        async with load.producer, load.consumer:
            await load.run(FIRST_MESSAGES / given.rate)
            for number in range(given.rounds * 2):
                turn = faulty if number % 2 else calm
                began_ns = cpu_ns(pid)
                faults = asyncio.create_task(inject(cluster, tails, given, number * 1_000)) if turn is faulty else None
                turn.messages += await load.run(given.seconds)
                if faults is not None:
                    turn.injected += await faults
                turn.cpu_ns += cpu_ns(pid) - began_ns
                turn.seconds += given.seconds
        await pool.close()
        await machine.workers.close()
    return calm, faulty


def main() -> None:
    """Parse the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--per-minute", type=float, default=3_000.0)
    parser.add_argument("--only", default="", help="only these kinds of faults")
    given = parser.parse_args()
    # As in a run of `staticfire chaos`: each fault is expected there.
    os.environ.setdefault("STATICFIRE_LOG_LEVEL", "critical")
    calm, faulty = asyncio.run(measure(given))
    print(
        f"without faults {calm.us:.1f} us per message; with {faulty.injected * 60 / faulty.seconds:,.0f} a minute"
        f" {faulty.us:.1f} us; ratio {faulty.us / calm.us:.3f}, {faulty.cores - calm.cores:.1%} of a core more"
    )


if __name__ == "__main__":
    main()
