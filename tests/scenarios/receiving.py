"""Simple consumers in a simulated shop."""

from collections import Counter

from staticfire.client import ConsumeFromWhere, PoppedMessage, SimpleConsumer, SimpleSettings
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.service import Service
from tests.scenarios.consuming import GROUP, TOPIC, Shop


def simple(shop: Shop, who: str, *topics: str, group: str = GROUP, expression: str = "*") -> SimpleConsumer:
    """Return a simple consumer on a machine with this name, not started. Without topics, it gets the shop's topic."""
    machine = shop.world.machine(who, host=f"10.0.5.{len(who) + sum(who.encode()) % 200}")
    settings = SimpleSettings(client=shop.settings, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = SimpleConsumer(group, shop.namesrv, settings, machine)
    for topic in topics or (TOPIC,):
        consumer.subscribe(topic, expression)
    return consumer


async def receive_all(consumer: SimpleConsumer, count: int, invisible_ms: int = 30_000) -> list[PoppedMessage]:
    """Receive until there are that many messages, or none arrive for a while."""
    messages: list[PoppedMessage] = []
    while len(messages) < count:
        found = await consumer.receive(32, invisible_ms, await_ms=2_000)
        if not found:
            break
        messages += found
    return messages


class Worker(Service):
    """A program that receives forever, works on each message for a while, and acknowledges it."""

    def __init__(self, shop: Shop, who: str, work_ms: int = 0, invisible_ms: int = 5_000) -> None:
        super().__init__()
        self.consumer = simple(shop, who)
        self.seen: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self._world, self._who = shop.world, who
        self._work_ms, self._invisible_ms = work_ms, invisible_ms

    async def start(self) -> "Worker":
        await self._world.start(self._who, self)
        return self

    async def _start(self) -> None:
        await self.consumer.__aenter__()
        self.spawn(self._work(), "work")

    async def _stop(self) -> None:
        await self._cancel_tasks()
        await self.consumer.__aexit__()

    async def _work(self) -> None:
        while True:
            try:
                for message in await self.consumer.receive(8, self._invisible_ms, await_ms=3_000):
                    self.seen[message.body] += 1
                    await self._world.run_for(ms=self._work_ms)
                    await self.consumer.ack(message)
                    self.done[message.body] += 1
            except StaticfireError:
                await self._world.run_for(ms=200)
