"""Members join a group: the time until every queue has exactly one owner again, with the new shares.

All members run in this process, each with its own connections and client id, so their work adds up on one core; the
broker has the other core.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from statistics import median

from benchmarks.asking import ask
from benchmarks.figures import Stand, Values
from benchmarks.machine import Meter, cpu_ns
from benchmarks.servers import broker, nameserver
from staticfire.client import ConsumeStatus, MessageQueue, PushConsumer
from staticfire.protocol.codecs import NATIVE
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import UpdateTopic

TOPIC, GROUP = "bench-group", "bench-members"
JOINS = 9
# The pause between two joins: a group that has just shared its queues waits before it does so again.
QUIET_S = 0.25
PATIENCE_S = 60
GROWTH = (50, 100, 200)


class Ownership:
    """The queues of the topic that each member has, as the members report them."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owned: dict[PushConsumer, list[MessageQueue]] = {}
        self._changed = asyncio.Event()

    def watch(self, consumer: PushConsumer) -> None:
        """Record the queues that a member reports."""

        @consumer.on_queues_changed
        def note(topic: str, _: list[MessageQueue], own: list[MessageQueue]) -> None:
            if topic == TOPIC:
                self._owned[consumer] = own
                self._changed.set()

    def left(self, consumer: PushConsumer) -> None:
        """Remove a member."""
        self._owned.pop(consumer, None)

    def _is_settled(self, members: int) -> bool:
        """Return whether each queue has one owner, and all members have their correct shares."""
        sizes = [len(own) for own in self._owned.values()]
        if sum(sizes) != self._queues or len(sizes) < min(members, self._queues):
            return False
        least, larger = divmod(self._queues, members)
        if sorted(size for size in sizes if size) != sorted([least + 1] * larger + [least] * (members - larger)):
            return False
        held = [queue for consumer in self._owned for queue in consumer.assignment if queue.topic == TOPIC]
        return len(held) == len(set(held)) == self._queues

    async def settled(self, members: int) -> None:
        """Return when the queues are shared among that many members. Raises: TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._is_settled(members):
                self._changed.clear()
                await self._changed.wait()


def member(namesrv: str, ownership: Ownership) -> PushConsumer:
    """Return a member that isn't started."""
    consumer = PushConsumer(GROUP, namesrv)
    consumer.subscribe(TOPIC)
    consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
    ownership.watch(consumer)
    return consumer


class Rebalance:
    """rebalance_ms: one member joins a group of 20 with 128 queues."""

    name = "rebalance"
    keys = ("rebalance_ms",)
    members, queues = 20, 128

    def measure(self, stand: Stand) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, self.queues, self.queues, READ_WRITE))
            meter = Meter(*server.pids)
            joins_ms = asyncio.run(self._joins(names.address))
            meter.stop()
        return {
            "rebalance_ms": median(joins_ms),
            "rebalance_max_ms": max(joins_ms),
            "rebalance_foreign": meter.foreign_cores,
        }

    async def _joins(self, namesrv: str) -> list[float]:
        """Let a member join and leave repeatedly; return the time of each join."""
        ownership, joins_ms = Ownership(self.queues), []
        async with AsyncExitStack() as group:
            for _ in range(self.members):
                await group.enter_async_context(member(namesrv, ownership))
            for _ in range(JOINS):
                await ownership.settled(self.members)
                await asyncio.sleep(QUIET_S)
                newcomer = member(namesrv, ownership)
                started_ns = time.monotonic_ns()
                async with newcomer:
                    await ownership.settled(self.members + 1)
                    joins_ms.append((time.monotonic_ns() - started_ns) / 1e6)
                ownership.left(newcomer)
        return joins_ms


class MembersJoin:
    """members_200_join_s: 200 members of a group start at the same time, with 1,000 queues. Also for fewer members."""

    name = "members_join"
    keys = tuple(f"members_{count}_join_s" for count in GROWTH[::-1])
    queues = 1_000

    def measure(self, stand: Stand) -> Values:
        values: Values = {}
        for count in GROWTH:
            values |= self._joined(stand, count)
        return values

    def _joined(self, stand: Stand, count: int) -> Values:
        with nameserver() as names, broker(stand.folder, namesrv=names.address) as server:
            ask(server.port, NATIVE, UpdateTopic(TOPIC, self.queues, self.queues, READ_WRITE))
            meter, own_ns, broker_ns = Meter(*server.pids), cpu_ns(os.getpid()), sum(map(cpu_ns, server.pids))
            seconds = asyncio.run(self._join(names.address, count))
            meter.stop()
            key = f"members_{count}_join"
            return {
                f"{key}_s": seconds,
                f"{key}_cpu_s": (cpu_ns(os.getpid()) - own_ns) / 1e9,
                f"{key}_broker_cpu_s": (sum(map(cpu_ns, server.pids)) - broker_ns) / 1e9,
                f"{key}_foreign": meter.foreign_cores,
            }

    async def _join(self, namesrv: str, count: int) -> float:
        ownership = Ownership(self.queues)
        members = [member(namesrv, ownership) for _ in range(count)]
        started_ns = time.monotonic_ns()
        await asyncio.gather(*(one.__aenter__() for one in members))
        await ownership.settled(count)
        seconds = (time.monotonic_ns() - started_ns) / 1e9
        await asyncio.gather(*(one.__aexit__() for one in members))
        return seconds
