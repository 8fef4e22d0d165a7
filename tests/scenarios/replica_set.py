"""A nameserver, a master and its slaves, each on a machine of its own, and a client that sends them single requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.failover.replicas import Failover, ReplicaAdmin
from staticfire.failover.watch import FailoverWatch
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.replication import ControlReplication, GetReplication, ReplicationState
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld

NAMESRV = "10.0.0.1:9876"
MASTER, SLAVE, SECOND = "broker-a", "broker-a-1", "broker-a-2"
HOSTS = {MASTER: "10.0.1.1", SLAVE: "10.0.1.2", SECOND: "10.0.1.3"}
IDS = {MASTER: 0, SLAVE: 1, SECOND: 2}
SEGMENT_BYTES = 64 * 1024


def address_of(name: str) -> str:
    return f"{HOSTS[name]}:10911"


class ReplicaSet:
    """The processes of one set are called broker-a, broker-a-1, broker-a-2, whatever their roles are."""

    def __init__(self, world: SimulatedWorld, **settings: Any) -> None:
        self.world = world
        self.settings: dict[str, Any] = {
            "slave_read_enable": True,
            "slave_sync_period": 1_000,
            "mapped_file_size_commit_log": SEGMENT_BYTES,
            **settings,
        }
        self.brokers: dict[str, Broker] = {}
        self.pool = ConnectionPool(world.machine("client", "10.0.0.9"))
        self.admin = ReplicaAdmin.at_nameservers(self.pool, NAMESRV)

    async def open(self, slaves: int = 1, topic: str = "orders") -> "ReplicaSet":
        await self.world.start("namesrv", Nameserver(self.world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
        await self.start(MASTER)
        await self.put_topic(topic)
        for name in (SLAVE, SECOND)[:slaves]:
            await self.start(name)
        for name in (SLAVE, SECOND)[:slaves]:
            await self.until_caught_up(name)
        return self

    async def fill(self, messages: int) -> None:
        """Send messages, and wait until the first slave has them."""
        for number in range(messages):
            await self.send(b"%d" % number)
        await self.until_caught_up()

    async def start(self, name: str, **settings: Any) -> Broker:
        role = {"broker_role": "SLAVE", "broker_id": IDS[name]} if name != MASTER else {}
        machine = self.world.machine(name, HOSTS[name])
        made = BrokerSettings(
            broker_name=MASTER, store_path_root_dir="/store",
            **{"namesrv_addr": NAMESRV, **self.settings, **role, **settings},
        )  # fmt: skip
        self.brokers[name] = broker = Broker(machine, made)
        await self.world.start(name, broker)
        return broker

    async def restart(self, name: str, **settings: Any) -> Broker:
        await self.world.stop(name)
        return await self.start(name, **settings)

    async def kill_and_start(self, name: str, power_loss: bool = False) -> Broker:
        self.world.kill(name, power_loss)
        await self.world.run_for(10)
        return await self.start(name)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Let slaves take over by themselves meanwhile."""
        watch = FailoverWatch(self.admin, lambda: self.world.uptime_ms, self.world.run_for)
        watching = asyncio.ensure_future(watch.loop())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def close(self) -> None:
        await self.pool.close()

    # -- requests ------------------------------------------------------------------------------------------------

    async def ask(self, name: str, request: Request, timeout_ms: int = 30_000) -> Any:
        return await self.pool.ask(address_of(name), request, timeout_ms)

    async def send(self, body: bytes, name: str = MASTER, topic: str = "orders", **properties: str) -> Any:
        born_ms = self.world.machine("client").clock.wall_ms()
        request = SendMessage(
            "producers", topic, "TBW102", 4, 0, 0, born_ms, 0, format_properties(properties).decode(), body=body
        )
        return await self.ask(name, request)

    async def pull(
        self, name: str, offset: int, group: str = "billing", hold_ms: int = 0, topic: str = "orders"
    ) -> Any:
        flags = FLAG_SUBSCRIPTION | (FLAG_SUSPEND if hold_ms else 0)
        return await self.ask(name, PullMessage(group, topic, 0, offset, 32, flags, 0, hold_ms, "*"))

    async def put_topic(self, topic: str, name: str = MASTER) -> None:
        assert (await self.ask(name, UpdateTopic(topic, 1, 1, 6))).code == 0

    async def state(self, name: str) -> ReplicationState:
        answer = await self.ask(name, GetReplication())
        assert answer.code == 0, answer.remark
        state: ReplicationState = answer.body
        return state

    async def control(self, name: str, **change: Any) -> Answer:
        answer: Answer = await self.ask(name, ControlReplication(**change))
        return answer

    async def failover(self, to: int | None = None, losing: int | None = None) -> Failover:
        return await self.admin.failover(MASTER, to, losing)

    # -- logs ----------------------------------------------------------------------------------------------------

    def end(self, name: str) -> int:
        return self.brokers[name].state.store.max_position

    async def until_caught_up(self, slave: str = SLAVE, master: str = MASTER, within_ms: int = 60_000) -> None:
        """Wait until a slave copies, and has everything."""

        def is_equal() -> bool:
            state = self.brokers[slave].replication_state()
            return bool(state.master_address) and not state.problem and self.end(slave) == self.end(master)

        await self.world.until(is_equal, within_ms, f"{slave} has caught up with {master}")

    def log_of(self, name: str) -> dict[str, bytes]:
        """Return the bytes of all segments by name, up to the log's end."""
        files = self.world.machine(name).files
        end = self.end(name)
        return {
            segment: files.read_bytes(f"/store/commitlog/{segment}")[: max(0, end - int(segment))]
            for segment in files.list_folder("/store/commitlog")
            if int(segment) < end
        }

    def assert_equal(self, *names: str) -> None:
        """The logs of these brokers are equal, byte by byte."""
        first = self.log_of(names[0])
        assert first, f"{names[0]} has no log"
        for name in names[1:]:
            assert self.log_of(name) == first, f"the log of {name} differs from that of {names[0]}"

    async def bodies(self, name: str, topic: str = "orders") -> list[bytes]:
        """Return the messages of the topic's only queue, in order."""
        found: list[bytes] = []
        while True:
            answer = await self.pull(name, len(found), "readers", topic=topic)
            if answer.code != 0:
                return found
            found += [record.body for record in answer.body.records]
