"""A simulated cluster for scenarios: a nameserver, brokers, and a consumer that sends single requests."""

import asyncio
from collections.abc import Callable
from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.command import Request
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.names import retry_topic
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.send import SendAnswer, SendMessageV2
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld

NAMESERVER = "10.0.0.1:9876"
CLOCK_TIMEOUT_MS = 3_600_000


class Stand:
    """A nameserver and brokers on their own machines, and a program that sends requests to them."""

    def __init__(self, world: SimulatedWorld, brokers: int = 1, **settings: object) -> None:
        self.world = world
        self.hosts = {f"broker-{'abcd'[index]}": f"10.0.0.{index + 2}" for index in range(brokers)}
        self.brokers = {name: f"{host}:10911" for name, host in self.hosts.items()}
        self.services: dict[str, Broker] = {}
        self.settings = settings
        self.pool = ConnectionPool(world.machine("program", "10.0.0.9"))

    async def start(self) -> "Stand":
        await self.start_nameserver()
        for name in self.brokers:
            await self.start_broker(name)
        return self

    async def start_nameserver(self) -> None:
        machine = self.world.machine("nameserver", "10.0.0.1")
        await self.world.start("nameserver", Nameserver(machine, NameserverSettings()))

    async def start_broker(self, name: str) -> None:
        machine = self.world.machine(name, self.hosts[name])
        settings = BrokerSettings(
            broker_name=name,
            namesrv_addr=NAMESERVER,
            store_path_root_dir="/store",
            **self.settings,  # type: ignore[arg-type]
        )
        self.services[name] = broker = Broker(machine, settings)
        await self.world.start(name, broker)

    async def ask(self, address: str, request: Request, timeout_ms: int = 5_000) -> Any:
        return await self.pool.ask(address, request, timeout_ms)

    async def clock(self, action: str, **values: object) -> Any:
        return await self.pool.ask(NAMESERVER, Clock(action, **values), CLOCK_TIMEOUT_MS)  # type: ignore[arg-type]

    async def create_topic(self, topic: str, queues: int = 1, broker: str = "broker-a") -> None:
        answer = await self.ask(self.brokers[broker], UpdateTopic(topic, queues, queues, 6))
        assert answer.code == 0, answer.remark

    async def send(
        self, topic: str, body: bytes = b"x", queue_id: int = 0, properties: str = "", broker: str = "broker-a"
    ) -> SendAnswer:
        request = SendMessageV2("program", topic, "TBW102", 4, queue_id, 0, 0, 0, properties, body=body)
        answer = await self.ask(self.brokers[broker], request)
        assert isinstance(answer, SendAnswer)
        assert answer.code == 0, answer.remark
        return answer

    async def pop(self, topic: str, invisible_ms: int, broker: str = "broker-a") -> ConnectionPool:
        """Pop from all queues of a topic, as a client of its own; return its connection, which the caller closes."""
        client = ConnectionPool(self.world.machine("client", "10.0.3.1"))
        request = PopMessage("billing", topic, -1, 32, invisible_ms, 0, 0, 0)
        assert (await client.ask(self.brokers[broker], request, 3_000)).code == 0
        return client

    async def close(self) -> None:
        await self.pool.close()


Listener = Callable[[StoredRecord], bool]


class BareConsumer:
    """One member of a group on each broker: sends one heartbeat, pulls its queues, commits after each batch."""

    def __init__(self, stand: Stand, group: str, topics: dict[str, int], listener: Listener, **data: object) -> None:
        """`topics`: topic -> number of queues. `listener` returns whether a message is done; else it is sent back."""
        self.stand = stand
        self.group = group
        self.listener = listener
        self.seen: list[StoredRecord] = []
        self._topics = {**topics, retry_topic(group): 1}
        self._data = data
        self._tasks: list[asyncio.Task[None]] = []
        self._pools: list[ConnectionPool] = []

    async def start(self) -> "BareConsumer":
        for name in self.stand.brokers:
            pool = ConnectionPool(self.stand.world.machine(f"consumer-{self.group}", "10.0.0.20"))
            self._pools.append(pool)
            await self._heartbeat(pool, name)
            for topic, queues in self._topics.items():
                for queue_id in range(queues):
                    loop = self._pull_loop(pool, name, topic, queue_id)
                    self._tasks.append(asyncio.get_running_loop().create_task(loop))
        return self

    async def _heartbeat(self, pool: ConnectionPool, broker: str) -> None:
        subscriptions = [SubscriptionData(topic) for topic in self._topics]
        consumer = ConsumerData(
            self.group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", subscriptions
        )
        for name, value in self._data.items():
            setattr(consumer, name, value)
        body = HeartbeatData(client_id=f"client-of-{self.group}", consumer_data_set=[consumer])
        assert (await pool.ask(self.stand.brokers[broker], Heartbeat(body=body))).code == 0

    async def _pull_loop(self, pool: ConnectionPool, broker: str, topic: str, queue_id: int) -> None:
        address = self.stand.brokers[broker]
        while True:
            try:
                await self._pull(pool, broker, address, topic, queue_id)
            except NetworkError:
                await self.stand.world.run_for(ms=200)
                await self._reconnect(pool, broker)

    async def _reconnect(self, pool: ConnectionPool, broker: str) -> None:
        try:
            await self._heartbeat(pool, broker)
        except NetworkError:
            pass

    async def _pull(self, pool: ConnectionPool, broker: str, address: str, topic: str, queue_id: int) -> None:
        answer = await pool.ask(address, QueryConsumerOffset(self.group, topic, queue_id))
        offset = answer.offset if isinstance(answer, OffsetAnswer) and answer.code == 0 else 0
        flags = FLAG_SUSPEND | FLAG_SUBSCRIPTION
        while True:
            pull = PullMessage(self.group, topic, queue_id, offset, 32, flags, 0, 15_000, "*")
            answer = await pool.ask(address, pull, 30_000)
            offset = answer.next_begin_offset if hasattr(answer, "next_begin_offset") else offset
            if answer.code != 0:
                continue
            for record in answer.body.records:
                self.seen.append(record)
                if not self.listener(record):
                    await pool.ask(address, SendBack(record.log_position, self.group, 0, max_reconsume_times=16))
            await pool.ask(address, UpdateConsumerOffset(self.group, topic, queue_id, offset))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pool in self._pools:
            await pool.close()
