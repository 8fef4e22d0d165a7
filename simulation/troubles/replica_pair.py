"""A master and its slave for a trouble, each on its own machine."""

from typing import Any

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.failover.replicas import Failover, ReplicaAdmin
from staticfire.protocol.requests.replication import ControlReplication
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.troubles.stage import NAMESRV, Stage

BROKER = "broker-a"
MASTER, SLAVE = BROKER, f"{BROKER}-1"
"""The names of the two machines. They stay the same when the slave takes over."""
CAUGHT_UP_MS = 60_000


class ReplicaPair:
    """The brokers of one set, in a cluster of their own. Clients know both as `broker-a`."""

    def __init__(self, stage: Stage, settings: dict[str, Any]) -> None:
        self._stage = stage
        self._settings = {"slave_read_enable": True, "slave_sync_period": 1_000, **settings}

    @classmethod
    async def open(cls, stage: Stage, *topics: str, queues: int = 1, **settings: Any) -> "ReplicaPair":
        """Start both with these settings, and create topics. The slave reads, and copies offsets every second."""
        pair = cls(stage, settings)
        await stage.open(*topics, queues=queues, **pair._settings)
        await pair.start(SLAVE)
        await pair.caught_up()
        return pair

    async def start(self, name: str, **settings: Any) -> None:
        """Start one of both, with other settings if they are given. Its disk has what it left there."""
        role = {"broker_role": "SLAVE", "broker_id": 1} if name == SLAVE else {}
        chosen: dict[str, Any] = {**self._settings, **role, **settings}
        made = BrokerSettings(broker_name=BROKER, namesrv_addr=NAMESRV, store_path_root_dir="/store", **chosen)
        self._stage.brokers[name] = broker = Broker(self._stage.machine(name), made)
        await self._stage.world.start(name, broker)

    def kill(self, name: str = MASTER, power_loss: bool = False) -> None:
        """Kill a process. Its disk stays, with a power loss without what wasn't synced."""
        self._stage.world.kill(name, power_loss)
        self._stage.brokers.pop(name)

    async def caught_up(self) -> None:
        """Wait until the slave has the whole log of its master."""
        brokers = self._stage.brokers

        def is_equal() -> bool:
            return brokers[SLAVE].state.store.max_position == brokers[MASTER].state.store.max_position

        await self._stage.world.until(is_equal, CAUGHT_UP_MS, "the slave has caught up")

    async def hold(self, is_held: bool = True) -> None:
        """Let the slave copy nothing, or let it continue."""
        pool = ConnectionPool(self._stage.machine("operator"))
        try:
            await ReplicaAdmin.at_nameservers(pool, NAMESRV).control(SLAVE, ControlReplication(hold=is_held))
        finally:
            await pool.close()

    async def failover(self, losing: int | None = None) -> Failover:
        """Let the slave become the master. `losing`: it doesn't have the last messages, this many."""
        pool = ConnectionPool(self._stage.machine("operator"))
        try:
            return await ReplicaAdmin.at_nameservers(pool, NAMESRV).failover(BROKER, losing=losing)
        finally:
            await pool.close()

    def end(self, name: str, topic: str) -> int:
        """Return where the first queue of a topic ends at one of both."""
        return self._stage.brokers[name].state.store.queue(topic, 0).max_offset

    def committed(self, name: str, group: str, topic: str) -> int:
        """Return a group's offset in the first queue of a topic at one of both; -1 if there is none."""
        return self._stage.brokers[name].tables.groups.offsets.committed(group, topic, 0)
