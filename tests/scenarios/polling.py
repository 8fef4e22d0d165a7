"""Lite pull consumers in a simulated shop."""

from collections import Counter

from staticfire.client import ConsumeFromWhere, LitePullConsumer, LitePullSettings, MessageQueue
from staticfire.runtime.service import Service
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop

QUEUE = MessageQueue(TOPIC, "broker-a", 0)


def lite_pull(shop: Shop, who: str, group: str = GROUP, **settings: object) -> LitePullConsumer:
    """Return a lite pull consumer on a machine with this name, not started."""
    machine = shop.world.machine(who, host=f"10.0.4.{len(who) + sum(who.encode()) % 200}")
    chosen = LitePullSettings(client=shop.settings, **settings)  # type: ignore[arg-type]
    return LitePullConsumer(group, NAMESRV, chosen, machine)


async def poll_all(consumer: LitePullConsumer, count: int, timeout_ms: int = 2_000) -> list[bytes]:
    """Poll until there are that many messages, or none arrive any more; return their bodies."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = await consumer.poll(timeout_ms)
        if not messages:
            break
        bodies += [message.body for message in messages]
    return bodies


class Program(Service):
    """A program that polls forever and records what it receives."""

    def __init__(self, shop: Shop, who: str, **settings: object) -> None:
        super().__init__()
        first = ConsumeFromWhere.FIRST_OFFSET
        self.consumer = lite_pull(shop, who, consume_from_where=first, **settings)  # type: ignore[arg-type]
        self.consumer.subscribe(TOPIC)
        self.bodies: list[bytes] = []
        self._world, self._who = shop.world, who

    async def start(self) -> None:
        await self._world.start(self._who, self)

    async def _start(self) -> None:
        await self.consumer.__aenter__()
        self.spawn(self._poll(), "polling")

    async def _stop(self) -> None:
        await self._cancel_tasks()
        await self.consumer.__aexit__()

    async def _poll(self) -> None:
        while True:
            self.bodies += [message.body for message in await self.consumer.poll(1_000)]


class Progress:
    """Checks that a group's committed offsets never go back."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._seen: Counter[tuple[str, int]] = Counter()

    def look(self) -> None:
        for broker, number in self._shop.ends():
            committed = max(self._shop.committed(number, broker=broker), 0)
            assert committed >= self._seen[broker, number], f"{broker}/{number} at {self._shop.world.uptime_ms} ms"
            self._seen[broker, number] = committed

    async def watch(self, seconds: int) -> None:
        for _ in range(seconds):
            await self._shop.world.run_for(seconds=1)
            self.look()

    async def watch_closely(self, ms: int) -> None:
        for _ in range(ms):
            await self._shop.world.run_for(ms=1)
            self.look()
