"""Brokers whose TLS files are being renewed while they connect to their nameservers again."""

import os
from pathlib import Path
from typing import Any

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import UsageError
from staticfire.simulation.world import SimulatedWorld
from tests.tls.stand import Authority, serving

pytestmark = pytest.mark.row("G6")

NAMESRV, BROKER = "10.0.0.1", "10.0.0.2"


def broker_settings(**tls: Any) -> BrokerSettings:
    return BrokerSettings(namesrv_addr=f"{NAMESRV}:9876", store_path_root_dir="/store", broker_ip1=BROKER, **tls)


async def test_a_broker_registers_again_while_its_certificate_is_being_renewed(
    world: SimulatedWorld, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("client", "broker.example")
    tls = serving(authority.issue("server", NAMESRV, BROKER), tls_server_mode="enforcing")
    connecting = {
        "tls_client_trust_cert_path": authority.path,
        "tls_client_cert_path": own.cert,
        "tls_client_key_path": own.key,
    }

    async def start_nameserver() -> Nameserver:
        settings = NameserverSettings(**tls)
        return await world.start("namesrv", Nameserver(world.machine("namesrv", NAMESRV), settings))

    await start_nameserver()
    broker = await world.start("broker", Broker(world.machine("broker", BROKER), broker_settings(**tls, **connecting)))
    await world.stop("namesrv")
    os.rename(own.cert, f"{own.cert}.away")
    restarted = await start_nameserver()
    await world.run_for(seconds=3)
    assert broker.crash is None
    assert [connection.is_tls for connection in restarted.connections] == [True]


async def test_a_file_that_a_broker_needs_to_connect_prevents_its_start(world: SimulatedWorld, tmp_path: Path) -> None:
    settings = broker_settings(tls_enable=True, tls_client_trust_cert_path=str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match=r"none.pem \(tls.client.trustCertPath\) can't be read: No such file"):
        Broker(world.machine("broker", BROKER), settings)
