"""The cluster for a trouble: real nameserver, brokers and clients on machines of a simulated world."""

from collections.abc import Awaitable, Callable
from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    OrderedContext,
    OrderedStatus,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.names import dead_letter_topic
from staticfire.runtime.machine import Machine
from staticfire.simulation.world.world import SimulatedWorld

NAMESRV = "10.0.0.1:9876"
Listener = Callable[[tuple[ReceivedMessage, ...], ConsumeContext | OrderedContext], Awaitable[Any]]
"""A story's listener; if it returns None, the messages are consumed successfully."""


class Stage:
    """A cluster and its clients. Each program has its own machine, with the program's name."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.brokers: dict[str, Broker] = {}
        self._hosts: dict[str, str] = {}

    def machine(self, name: str) -> Machine:
        """Return the machine with this name. It is created at the first call; after a kill it gets a new process."""
        host = self._hosts.setdefault(name, f"10.0.0.{len(self._hosts) + 1}")
        return self.world.machine(name, host=host)

    async def open(self, *topics: str, queues: int = 4, brokers: int = 1, **settings: Any) -> None:
        """Start a nameserver and brokers with these settings, and create topics on all brokers."""
        await self.world.start("namesrv", Nameserver(self.machine("namesrv"), NameserverSettings()))
        for number in range(brokers):
            await self.start_broker(f"broker-{'abcdefgh'[number]}", **settings)
        async with Admin(NAMESRV, machine=self.machine("admin")) as admin:
            for topic in topics:
                await admin.create_topic(topic, queues=queues)

    async def start_broker(self, name: str, **settings: Any) -> None:
        """Start a broker on its machine. The disk contains what the previous process left there."""
        chosen = BrokerSettings(broker_name=name, namesrv_addr=NAMESRV, store_path_root_dir="/store", **settings)
        broker = self.brokers[name] = Broker(self.machine(name), chosen)
        await self.world.start(name, broker)

    async def producer(self, name: str = "shop", **settings: Any) -> Producer:
        """Start a producer."""
        producer = Producer(name, NAMESRV, ProducerSettings(**settings), self.machine(name))
        return await self.world.start(name, producer)

    async def consumer(
        self, name: str, group: str, topic: str, listener: Listener, expression: str = "*", ordered: bool = False,
        **settings: Any,
    ) -> PushConsumer:  # fmt: skip
        """Start a member of a group."""
        consumer = PushConsumer(group, NAMESRV, PushSettings(**settings), self.machine(name))
        consumer.subscribe(topic, expression)

        async def listen(messages: tuple[ReceivedMessage, ...], context: ConsumeContext | OrderedContext) -> Any:
            outcome = await listener(messages, context)
            if outcome is not None:
                return outcome
            return OrderedStatus.SUCCESS if ordered else ConsumeStatus.CONSUME_SUCCESS

        if ordered:
            consumer.ordered_listener(listen)
        else:
            consumer.listener(listen)
        return await self.world.start(name, consumer)

    async def send(self, producer: Producer, topic: str, count: int, every_ms: float = 0, tag: str = "") -> None:
        """Send `count` messages one after the other, with their numbers as bodies."""
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number, tag))
            await self.run_for(every_ms)

    async def run_for(self, ms: float = 0, **times: float) -> None:
        """Let this much virtual time pass; `seconds`, `minutes` and `hours` may be given, too."""
        await self.world.run_for(ms, **times)

    @property
    def now_ms(self) -> int:
        """Virtual time."""
        return self.world.uptime_ms

    def dead(self, group: str) -> int:
        """Return the number of a group's dead letters."""
        return self.stored(dead_letter_topic(group))

    def stored(self, topic: str, broker: str = "") -> int:
        """Return how many messages are stored in a topic, on all brokers or on one."""
        stores = [one.state.store for name, one in self.brokers.items() if broker in ("", name)]
        return sum(store.queue(topic, at).max_offset for store in stores for at in store.queue_ids(topic))

    def lag(self, group: str, topic: str) -> int:
        """Return how far a group lags behind the end of a topic, as a console shows it."""
        lag = 0
        for broker in self.brokers.values():
            store, offsets = broker.state.store, broker.tables.groups.offsets
            for queue_id in store.queue_ids(topic):
                lag += store.queue(topic, queue_id).max_offset - max(offsets.committed(group, topic, queue_id), 0)
        return lag


def time_words(ms: float) -> str:
    """Return a duration for people: `340 ms`, `12.5 s`, `4 h 46 min`."""
    seconds = ms / 1_000
    if seconds < 1:
        return f"{ms:.0f} ms"
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
