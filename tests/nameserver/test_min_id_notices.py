"""A broker's replicas are notified when the lowest id among them changes."""

from dataclasses import replace

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.brokers import NotifyMinBrokerIdChange
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.machine import Machine
from staticfire.runtime.server import Server, ServerTls
from staticfire.runtime.service import Service
from staticfire.runtime.tls.settings import TlsSettings
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.asking import registration
from tests.nameserver.conftest import Connect

pytestmark = pytest.mark.row("P7")

NOTIFYING = NameserverSettings(notify_min_broker_id_changed=True)
PLAIN_OR_TLS = TlsSettings()


class Replica(Service):
    """A port that keeps what it is notified of."""

    def __init__(self, machine: Machine, tls: TlsSettings) -> None:
        super().__init__()
        self.notices: list[NotifyMinBrokerIdChange] = []
        dispatcher = Dispatcher()
        dispatcher.handle(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, self._notified)
        self._server = Server(machine, dispatcher, tls=ServerTls(tls))

    def _notified(self, call: Call) -> Answer:
        self.notices.append(call.request)
        return Answer()

    async def _start(self) -> None:
        await self._server.listen("10.0.0.3", 10911)

    async def _stop(self) -> None:
        await self._server.close()


async def lose_the_master(
    world: SimulatedWorld, connect: Connect, tls: TlsSettings = PLAIN_OR_TLS
) -> list[NotifyMinBrokerIdChange]:
    replica = await world.start("slave", Replica(world.machine("slave", "10.0.0.3"), tls))
    master, slave = connect("10.0.0.2"), connect("10.0.0.4")
    await master.ask(registration(enable_acting_master=True))
    await slave.ask(registration("broker-a", "10.0.0.3:10911", 1, enable_acting_master=True))
    await master.close()
    await world.run_for(ms=50)
    return replica.notices


@pytest.mark.parametrize("settings", [NOTIFYING])
async def test_a_slave_is_notified_when_its_master_is_lost(world: SimulatedWorld, connect: Connect) -> None:
    (notice,) = await lose_the_master(world, connect)
    assert (notice.min_broker_id, notice.min_broker_addr) == (1, "10.0.0.3:10911")
    assert (notice.offline_broker_addr, notice.ha_broker_addr) == ("10.0.0.2:10911", None)


@pytest.mark.row("G6")
@pytest.mark.parametrize("settings", [replace(NOTIFYING, tls_enable=True)])
async def test_a_slave_that_accepts_only_tls_is_notified(world: SimulatedWorld, connect: Connect) -> None:
    (notice,) = await lose_the_master(world, connect, TlsSettings(tls_server_mode="enforcing"))
    assert notice.min_broker_id == 1


async def test_without_the_setting_no_replica_is_notified(world: SimulatedWorld, connect: Connect) -> None:
    assert await lose_the_master(world, connect) == []


@pytest.mark.parametrize("address", ["10.0.0.9:1", "10.0.0.9", "no port:", "slave..local:1"])
@pytest.mark.parametrize("settings", [NOTIFYING])
async def test_a_replica_that_cant_be_reached_does_no_harm(
    world: SimulatedWorld, connect: Connect, nameserver: Nameserver, address: str
) -> None:
    master, slave, client = connect("10.0.0.2"), connect("10.0.0.4"), connect()
    await master.ask(registration(enable_acting_master=True))
    await slave.ask(registration("broker-a", address, 1, enable_acting_master=True))
    await master.close()
    await world.run_for(seconds=10)
    assert await client.addresses("orders") == {"broker-a": {1: address}}
    assert nameserver.crash is None
