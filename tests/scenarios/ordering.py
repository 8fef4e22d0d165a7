"""Consumers that consume in order, and checks: one member per queue at a time, no message before its turn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from staticfire.client import (
    MessageQueue,
    OrderedContext,
    OrderedStatus,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.locks import MessageQueue as LockedQueue
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Messages, Shop

SUCCESS = OrderedStatus.SUCCESS
SUSPEND = OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


@dataclass
class Turn:
    """One call of a listener."""

    who: str
    messages: Messages
    context: OrderedContext
    began_ms: int
    outcome: object = "running"

    @property
    def message(self) -> ReceivedMessage:
        return self.messages[0]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


Reaction = Callable[[Turn], Awaitable[OrderedStatus | None]]


@dataclass
class Ordering:
    """All listener calls so far, and the faults that were found."""

    shop: Shop
    turns: list[Turn] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    running: dict[MessageQueue, Turn] = field(default_factory=dict)
    _next: dict[MessageQueue, int] = field(default_factory=dict)

    @property
    def world(self) -> SimulatedWorld:
        return self.shop.world

    @property
    def bodies(self) -> list[bytes]:
        return [body for turn in self.turns for body in turn.bodies]

    def bodies_of(self, queue: int) -> list[bytes]:
        return [body for turn in self.turns if turn.context.queue.queue_id == queue for body in turn.bodies]

    def consumer(self, who: str, reaction: Reaction | None = None, **settings: object) -> PushConsumer:
        """Return a consumer on a machine with this name, not started."""
        machine = self.world.machine(who, host=f"10.0.4.{sum(who.encode()) % 250}")
        chosen = PushSettings(client=self.shop.settings, **settings)  # type: ignore[arg-type]
        consumer = PushConsumer(GROUP, NAMESRV, chosen, machine)
        consumer.subscribe(TOPIC)

        @consumer.ordered_listener
        async def listen(messages: Messages, context: OrderedContext) -> OrderedStatus | None:
            turn = Turn(who, messages, context, self.world.uptime_ms)
            self._begin(turn)
            try:
                turn.outcome = SUCCESS if reaction is None else await reaction(turn)
            finally:
                self._end(turn)
            return turn.outcome

        return consumer

    async def start(self, who: str, reaction: Reaction | None = None, **settings: object) -> PushConsumer:
        return await self.world.start(who, self.consumer(who, reaction, **settings))

    def kill(self, who: str) -> None:
        """Kill a consumer's process, including its running listeners."""
        self.world.kill(who)
        self.running = {queue: turn for queue, turn in self.running.items() if turn.who != who}

    def _begin(self, turn: Turn) -> None:
        queue = turn.context.queue
        other = self.running.get(queue)
        if other is not None:
            self.faults.append(f"{turn.who} and {other.who} work on {queue} at once, at {turn.began_ms} ms")
        offsets = [message.queue_offset for message in turn.messages]
        if offsets[0] > self._next.get(queue, 0) or offsets != list(range(offsets[0], offsets[-1] + 1)):
            self.faults.append(f"{turn.who} got {offsets} of {queue} where {self._next.get(queue, 0)} was to come")
        self.running[queue] = turn
        self.turns.append(turn)

    def _end(self, turn: Turn) -> None:
        queue = turn.context.queue
        if self.running.get(queue) is turn:
            del self.running[queue]
        if turn.outcome is SUCCESS:
            self._next[queue] = max(self._next.get(queue, 0), turn.messages[-1].queue_offset + 1)

    async def until(self, count: int, within_ms: float = 60_000) -> None:
        """Return when that many messages were received."""
        await self.world.until(lambda: len(self.bodies) >= count, within_ms, f"{count} messages heard")

    async def feed(self, count: int, queues: int, pause_ms: float) -> None:
        """Send messages one by one, numbered per queue: the body is the offset."""
        for number in range(count):
            await self.shop.send(b"%d" % (number // queues), queue=number % queues)
            await self.world.run_for(ms=pause_ms)


class Chances:
    """Random events: members join, leave, are killed or isolated, a broker is killed, listeners fail."""

    def __init__(self, group: Ordering, random: Random) -> None:
        self._group = group
        self._world = group.world
        self._random = random
        self._members: list[str] = []
        self._names = 0

    async def play(self, rounds: int) -> None:
        """Run that many random events, then wait until the group has consumed all messages."""
        await self._join()
        for _ in range(rounds):
            feeding = asyncio.create_task(self._feed(self._random.randrange(40)))
            await self._world.run_for(ms=self._random.choice([5, 50, 500, 3_000]))
            await self._random.choice([self._join, self._join, self._leave, self._kill, self._cut, self._restart])()
            await feeding
        if not self._members:
            await self._join()
        await self._world.until(self._group.shop.is_committed, within_ms=300_000)

    async def _feed(self, count: int) -> None:
        while count:
            try:
                await self._group.shop.send(b"x", queue=self._random.randrange(4))
                count -= 1
            except NetworkError:
                pass  # The broker is away.
            await self._world.run_for(ms=self._random.randrange(20))

    async def _react(self, _: Turn) -> OrderedStatus:
        await self._world.run_for(ms=self._random.choice([0, 1, 20, 100]))
        chance = self._random.random()
        if chance < 0.02:
            raise ValueError("out of luck")
        return SUCCESS if chance < 0.9 else SUSPEND

    async def _join(self) -> None:
        if len(self._members) < 4:
            self._names += 1
            who = f"member-{self._names}"
            self._members.append(who)
            batch = self._random.choice([1, 1, 3])
            settings = {"consume_message_batch_max_size": batch, "suspend_current_queue_time_ms": 50}
            await self._group.start(who, self._react, **settings)

    async def _leave(self) -> None:
        if self._members:
            await self._world.stop(self._members.pop(self._random.randrange(len(self._members))))

    async def _kill(self) -> None:
        if self._members:
            self._group.kill(self._members.pop(self._random.randrange(len(self._members))))

    async def _cut(self) -> None:
        if self._members:
            who = self._random.choice(self._members)
            self._world.isolate(who)
            await self._world.run_for(seconds=self._random.choice([1, 40, 150]))
            self._world.heal(who)

    async def _restart(self) -> None:
        self._world.kill("broker-a")
        await self._world.run_for(ms=self._random.choice([5, 1_000, 30_000]))
        await self._group.shop.start_broker("broker-a")


def taking(world: SimulatedWorld, ms: float) -> Reaction:
    """Return a listener that takes that long."""

    async def take(_: Turn) -> OrderedStatus:
        await world.run_for(ms)
        return SUCCESS

    return take


async def forever(_: Turn) -> OrderedStatus:
    """A listener that never returns."""
    await asyncio.get_running_loop().create_future()
    return SUCCESS


def own(consumer: PushConsumer) -> list[int]:
    """Return the queues of the topic that a consumer has."""
    return [queue.queue_id for queue in consumer.assignment if queue.topic == TOPIC]


def holder(group: Ordering, queue: int = 0) -> str | None:
    """Return the client that holds the lock of a queue, according to its broker."""
    broker = group.shop.brokers["broker-a"]
    uptime_ms = broker.state.machine.clock.uptime_ms()
    return broker.tables.groups.queue_locks.holder(GROUP, LockedQueue(TOPIC, "broker-a", queue), uptime_ms)
