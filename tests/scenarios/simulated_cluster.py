"""Nameservers and brokers on their own machines, in a simulated world."""

from dataclasses import dataclass, field

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import ClientSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.requests.clock import Clock, ClockAnswer
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld

NAMESRV = "10.0.0.1:9876"


@dataclass
class SimulatedCluster:
    """The servers of a cluster, and their settings."""

    world: SimulatedWorld
    settings: ClientSettings = field(default_factory=ClientSettings)
    """The settings of the clients that a test starts."""
    broker_settings: dict[str, object] = field(default_factory=dict)
    nameserver_settings: NameserverSettings = field(default_factory=NameserverSettings)
    namesrv: str = NAMESRV
    """Addresses, separated by semicolons. Each becomes a nameserver: namesrv, namesrv-2 ..."""
    brokers: dict[str, Broker] = field(default_factory=dict)

    async def start_servers(self, brokers: int) -> None:
        for number, address in enumerate(self.namesrv.split(";")):
            await self.start_nameserver(f"namesrv-{number + 1}" if number else "namesrv", address.partition(":")[0])
        for number in range(brokers):
            await self.start_broker(f"broker-{'abc'[number]}", f"10.0.1.{number + 1}")

    async def start_nameserver(self, name: str, host: str | None = None) -> Nameserver:
        machine = self.world.machine(name, host=host)
        return await self.world.start(name, Nameserver(machine, self.nameserver_settings))

    async def start_broker(self, name: str = "broker-a", host: str | None = None) -> None:
        machine = self.world.machine(name, host=host)
        settings = BrokerSettings(
            broker_name=name,
            namesrv_addr=self.namesrv,
            store_path_root_dir="/store",
            **self.broker_settings,  # type: ignore[arg-type]
        )
        self.brokers[name] = Broker(machine, settings)
        await self.world.start(name, self.brokers[name])

    async def move_clock(self, pool: ConnectionPool, by_ms: int) -> ClockAnswer:
        """Move message time forward. Return when the cluster is at rest."""
        answer = await pool.ask(NAMESRV, Clock("advance", by_ms=by_ms), 3_600_000)
        assert answer.code == 0, answer.remark
        assert isinstance(answer, ClockAnswer)
        return answer
