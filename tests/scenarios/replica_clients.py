"""Clients of a master and its slave: a producer, and consumers of every kind that note what they get."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from staticfire.client import (
    Admin,
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    SimpleConsumer,
    SimpleSettings,
    SubscriptionGroupConfig,
)
from staticfire.protocol.errors import StaticfireError
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, ReplicaSet

TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, MASTER, 0)
FIRST = ConsumeFromWhere.FIRST_OFFSET
PUSH, ORDERED, LITE, SIMPLE = "push", "ordered", "lite", "simple"
HOSTS = {PUSH: "10.0.3.1", ORDERED: "10.0.3.2", LITE: "10.0.3.3", SIMPLE: "10.0.3.4"}
Got = dict[str, list[bytes]]


class ReplicaClients:
    """The group of each consumer has the name of its kind."""

    def __init__(self, world: SimulatedWorld, pair: ReplicaSet, settings: ClientSettings) -> None:
        self.world = world
        self.pair = pair
        self.got: Got = {}
        self.errors: list[str] = []
        """What the receives of the simple consumer raised."""
        self._settings = settings
        self._running = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> "ReplicaClients":
        settings = ProducerSettings(client=self._settings)
        producer = Producer("shop", NAMESRV, settings, self.world.machine("shop", "10.0.2.1"))
        self.producer = await self._running.enter_async_context(producer)
        self.admin = await self._running.enter_async_context(Admin(client=self.producer.client))
        for kind in (PUSH, ORDERED, LITE, SIMPLE):
            await self.admin.create_group(SubscriptionGroupConfig(kind))
        return self

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._running.aclose()

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            await self.producer.send(Message(TOPIC, body))

    async def start(self, *kinds: str, **settings: Any) -> None:
        for kind in kinds:
            self.got.setdefault(kind, [])
            consumer = getattr(self, f"_{kind}")(kind, settings)
            await self.world.start(kind, consumer)
            if kind == LITE:
                self._tasks.append(asyncio.ensure_future(self._poll(consumer)))
            if kind == SIMPLE:
                self._tasks.append(asyncio.ensure_future(self._receive(consumer)))

    def _machine(self, kind: str) -> Any:
        return self.world.machine(kind, HOSTS[kind])

    def _push(self, kind: str, more: dict[str, Any]) -> PushConsumer:
        settings = PushSettings(client=self._settings, consume_from_where=FIRST, **more)
        consumer = PushConsumer(kind, NAMESRV, settings, self._machine(kind))
        consumer.subscribe(TOPIC)

        @consumer.listener
        async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
            self.got[kind] += [message.body for message in messages]
            return ConsumeStatus.CONSUME_SUCCESS

        return consumer

    def _ordered(self, kind: str, more: dict[str, Any]) -> PushConsumer:
        settings = PushSettings(client=self._settings, consume_from_where=FIRST, **more)
        consumer = PushConsumer(kind, NAMESRV, settings, self._machine(kind))
        consumer.subscribe(TOPIC)

        @consumer.ordered_listener
        async def listen(messages: tuple[ReceivedMessage, ...], _: OrderedContext) -> OrderedStatus:
            self.got[kind] += [message.body for message in messages]
            return OrderedStatus.SUCCESS

        return consumer

    def _lite(self, kind: str, more: dict[str, Any]) -> LitePullConsumer:
        settings = LitePullSettings(client=self._settings, consume_from_where=FIRST, **more)
        consumer = LitePullConsumer(kind, NAMESRV, settings, self._machine(kind))
        consumer.subscribe(TOPIC)
        return consumer

    async def _poll(self, consumer: LitePullConsumer) -> None:
        while True:
            self.got[LITE] += [message.body for message in await consumer.poll(1_000)]

    def _simple(self, kind: str, more: dict[str, Any]) -> SimpleConsumer:
        settings = SimpleSettings(client=self._settings, consume_from_where=FIRST, **more)
        consumer = SimpleConsumer(kind, NAMESRV, settings, self._machine(kind))
        consumer.subscribe(TOPIC)
        return consumer

    async def _receive(self, consumer: SimpleConsumer) -> None:
        while True:
            try:
                for message in await consumer.receive(16, 30_000, 1_000):
                    self.got[SIMPLE].append(message.body)
                    await consumer.ack(message)
            except StaticfireError as error:
                self.errors.append(str(error))
                await self.world.run_for(1_000)

    async def until_got(self, bodies: list[bytes], *kinds: str, within_ms: float = 60_000) -> None:
        """Wait until each of these consumers has got these messages, in whatever order."""
        wanted = sorted(bodies)
        await self.world.until(
            lambda: all(sorted(self.got[kind]) == wanted for kind in kinds), within_ms, f"{kinds} got {wanted}"
        )
