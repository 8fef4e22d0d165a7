"""Members of RocketMQ's client and of ours share a group: whoever comes and goes, each queue has one owner."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from staticfire.client import (
    AVERAGELY,
    AVERAGELY_BY_CIRCLE,
    AllocateStrategy,
    ClientSettings,
    ConsistentHash,
    ConsumeStatus,
    MessageQueue,
    PushConsumer,
    PushSettings,
)
from staticfire.cluster.cluster import Cluster
from tests.allocation.jars import java_command

pytestmark = [pytest.mark.row("R3"), pytest.mark.row("S6"), pytest.mark.foreign, pytest.mark.timeout(600)]

TOPIC, GROUP, QUEUES = "orders", "mixed", 6
STEPS = 20
EACH_MAX = 3
PATIENCE_S = 120
"""Java's members take seconds to start while other programs want the processors."""
ALL = [MessageQueue(TOPIC, f"broker-{letter}", number) for letter in "ab" for number in range(QUEUES)]


class JavaMembers:
    """The program Members.java."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.ids: dict[str, str] = {}

    def ask(self, words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    async def join(self, name: str, strategy: str) -> None:
        answer = await asyncio.to_thread(self.ask, f"join {name} {strategy}")
        self.ids[name] = answer.removeprefix("id ")

    async def leave(self, name: str) -> None:
        del self.ids[name]
        await asyncio.to_thread(self.ask, f"leave {name}")

    async def have(self, expected: dict[str, list[MessageQueue]]) -> None:
        """Wait until each has what is expected by client id."""
        sides = [
            f"{name}={','.join(f'{queue.broker_name} {queue.queue_id}' for queue in expected[client_id])}"
            for name, client_id in sorted(self.ids.items())
        ]
        words = ";".join(sides)
        assert await asyncio.to_thread(self.ask, f"await {words}") == "as expected", words


@contextmanager
def java_members(namesrv: str, folder: Path) -> Iterator[JavaMembers]:
    command = [*java_command("Members", str(folder)), namesrv, TOPIC, GROUP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield JavaMembers(process)
        finally:
            process.kill()


class OwnMembers:
    """Ours, in this process."""

    def __init__(self, namesrv: str, strategy: AllocateStrategy) -> None:
        self._namesrv = namesrv
        self._strategy = strategy
        self._changed = asyncio.Event()
        self.consumers: dict[str, PushConsumer] = {}

    async def join(self, name: str) -> None:
        client = ClientSettings(instance_name=name)
        consumer = PushConsumer(GROUP, self._namesrv, PushSettings(client=client, allocate_strategy=self._strategy))
        consumer.subscribe(TOPIC)
        consumer.listener(lambda messages, context: ConsumeStatus.CONSUME_SUCCESS)
        consumer.on_queues_changed(lambda *_: self._changed.set())
        self.consumers[name] = await consumer.__aenter__()

    async def leave(self, name: str) -> None:
        await self.consumers.pop(name).__aexit__()

    @property
    def ids(self) -> dict[str, str]:
        return {name: consumer.client.client_id for name, consumer in self.consumers.items()}

    async def have(self, expected: dict[str, list[MessageQueue]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while any(
                [queue for queue in one.assignment if queue.topic == TOPIC] != expected[one.client.client_id]
                for one in self.consumers.values()
            ):
                self._changed.clear()
                await self._changed.wait()


@pytest.mark.parametrize(
    "strategy", [AVERAGELY, AVERAGELY_BY_CIRCLE, ConsistentHash()], ids=lambda strategy: strategy.name
)
def test_each_queue_has_one_owner_whoever_comes_and_goes(strategy: AllocateStrategy, tmp_path: Path) -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic(TOPIC, queues=QUEUES)
        with java_members(cluster.namesrv, tmp_path) as theirs:
            asyncio.run(come_and_go(OwnMembers(cluster.namesrv, strategy), theirs, strategy))


async def come_and_go(ours: OwnMembers, theirs: JavaMembers, strategy: AllocateStrategy) -> None:
    random = Random(20)
    for step in range(STEPS):
        side: OwnMembers | JavaMembers = ours if random.random() < 0.5 else theirs
        there = sorted(side.ids)
        if there and (len(there) >= EACH_MAX or random.random() < 0.4):
            await side.leave(random.choice(there))
        elif side is ours:
            await ours.join(f"ours-{step}")
        else:
            await theirs.join(f"theirs-{step}", strategy.name)
        ids = sorted([*ours.ids.values(), *theirs.ids.values()])
        expected = {who: sorted(strategy.allocate(GROUP, who, ALL, ids)) for who in ids}
        assert not ids or sorted(queue for own in expected.values() for queue in own) == ALL
        await theirs.have(expected)
        await ours.have(expected)
    for name in list(ours.ids):
        await ours.leave(name)
