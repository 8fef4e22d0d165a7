"""A simulated cluster with a shop that sends messages, and consumers on their own machines."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.protocol.requests.clock import Clock, ClockAnswer
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.simulated_cluster import NAMESRV, SimulatedCluster

__all__ = ["NAMESRV"]

TOPIC, GROUP = "orders", "billing"

Messages = tuple[ReceivedMessage, ...]
Reaction = Callable[["Heard"], Awaitable[ConsumeStatus | None]]


@dataclass
class Heard:
    """One call of a listener."""

    who: str
    messages: Messages
    context: ConsumeContext
    uptime_ms: int

    @property
    def message(self) -> ReceivedMessage:
        return self.messages[0]


@dataclass
class Shop(SimulatedCluster):
    """The cluster, a program that sends and queries, and all calls of listeners in order."""

    heard: list[Heard] = field(default_factory=list)
    _running: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self, brokers: int = 1, queues: int = 4) -> "Shop":
        await self.start_servers(brokers)
        machine = self.world.machine("shop", host="10.0.2.1")
        producer = Producer("shop", self.namesrv, ProducerSettings(client=self.settings), machine)
        self.producer = await self._running.enter_async_context(producer)
        self.admin = await self._running.enter_async_context(Admin(client=self.producer.client))
        await self.admin.create_topic(TOPIC, queues=queues)
        return self

    async def close(self) -> None:
        await self._running.aclose()

    # -- messages --------------------------------------------------------------------------------------------------

    async def send(self, *bodies: bytes, tags: str = "", queue: int | None = None, topic: str = TOPIC) -> None:
        to = None if queue is None else MessageQueue(topic, "broker-a", queue)
        for body in bodies:
            await self.producer.send(Message(topic, body, tags=tags), queue=to)

    async def send_many(self, count: int) -> list[bytes]:
        bodies = [b"%d" % number for number in range(count)]
        await self.producer.send_many([Message(TOPIC, body) for body in bodies])
        return bodies

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for heard in self.heard for message in heard.messages]

    def bodies_of(self, who: str) -> list[bytes]:
        return [message.body for heard in self.heard if heard.who == who for message in heard.messages]

    async def until_heard(self, count: int, within_ms: float = 60_000) -> None:
        await self.world.until(lambda: len(self.bodies) >= count, within_ms, f"{count} messages heard")

    async def advance(self, hours: float) -> ClockAnswer:
        """Move message time forward. Return when the cluster is at rest."""
        return await self.move_clock(self.producer.client.pool, round(hours * 3_600_000))

    async def clock(self, action: str) -> None:
        """Change the mode of message time: freeze, run ..."""
        answer = await self.producer.client.pool.ask(NAMESRV, Clock(action))
        assert answer.code == 0, answer.remark

    # -- offsets ---------------------------------------------------------------------------------------------------

    @property
    def offsets(self) -> QueueOffsets:
        return self.admin.offsets

    def committed(self, queue: int = 0, topic: str = TOPIC, group: str = GROUP, broker: str = "broker-a") -> int:
        """Return a group's offset on a broker, without a request."""
        return self.brokers[broker].tables.groups.offsets.committed(group, topic, queue)

    def ends(self, topic: str = TOPIC) -> dict[tuple[str, int], int]:
        """Return the end offset of each queue of a topic."""
        return {
            (name, number): broker.state.store.queue(topic, number).max_offset
            for name, broker in self.brokers.items()
            if topic in broker.tables.topics.topics
            for number in range(broker.tables.topics.topics[topic].read_queue_nums)
        }

    def is_committed(self, topic: str = TOPIC, group: str = GROUP) -> bool:
        """Return whether a group has consumed everything."""
        return all(
            self.committed(number, topic, group, broker) >= end
            for (broker, number), end in self.ends(topic).items()
            if end
        )

    # -- consumers -------------------------------------------------------------------------------------------------

    def consumer(
        self,
        who: str,
        reaction: Reaction | None = None,
        group: str = GROUP,
        topic: str | None = TOPIC,
        expression: str = "*",
        **settings: object,
    ) -> PushConsumer:
        """Return a consumer on a machine with this name, not started. Its listener calls `reaction`."""
        host = f"10.0.3.{len(who) + sum(who.encode()) % 200}"
        machine = self.world.machine(who, host=host)
        chosen = PushSettings(client=self.settings, **settings)  # type: ignore[arg-type]
        consumer = PushConsumer(group, self.namesrv, chosen, machine)
        if topic is not None:
            consumer.subscribe(topic, expression)

        @consumer.listener
        async def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus | None:
            heard = Heard(who, messages, context, self.world.uptime_ms)
            self.heard.append(heard)
            return ConsumeStatus.CONSUME_SUCCESS if reaction is None else await reaction(heard)

        return consumer

    async def start(self, who: str, reaction: Reaction | None = None, **choices: object) -> PushConsumer:
        """Start a consumer on a machine with this name."""
        return await self.world.start(who, self.consumer(who, reaction, **choices))  # type: ignore[arg-type]


async def forever(_: Heard) -> ConsumeStatus:
    """A listener that never returns."""
    await asyncio.get_running_loop().create_future()
    return ConsumeStatus.CONSUME_SUCCESS


async def later(_: Heard) -> ConsumeStatus:
    """A listener that always fails."""
    return ConsumeStatus.RECONSUME_LATER


def failing(times: int) -> Reaction:
    """Return a listener that fails that often with each message."""

    async def fail(heard: Heard) -> ConsumeStatus:
        failed = heard.message.reconsume_times < times
        return ConsumeStatus.RECONSUME_LATER if failed else ConsumeStatus.CONSUME_SUCCESS

    return fail


def taking(world: SimulatedWorld, ms: float) -> Reaction:
    """Return a listener that takes that long."""

    async def take(_: Heard) -> ConsumeStatus:
        await world.run_for(ms)
        return ConsumeStatus.CONSUME_SUCCESS

    return take
