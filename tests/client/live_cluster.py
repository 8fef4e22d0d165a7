"""A nameserver and brokers over real sockets, in the event loop of a test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import Admin
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.runtime.live import live_machine


@dataclass
class LiveCluster:
    """Where its nameserver is, and its brokers."""

    namesrv: str
    brokers: list[Broker]


@asynccontextmanager
async def live_cluster(folder: Path, brokers: int = 1, queues: int = 4) -> AsyncIterator[LiveCluster]:
    """Run brokers on free ports, with a topic `orders`; it has so many queues on each of them."""
    machine = live_machine()
    async with AsyncExitStack() as running:
        running.push_async_callback(machine.workers.close)
        settings = NameserverSettings(listen_host="127.0.0.1", listen_port=0)
        nameserver = await running.enter_async_context(Nameserver(machine, settings))
        cluster = LiveCluster(f"127.0.0.1:{nameserver.port}", [])
        for name in [f"broker-{'abc'[number]}" for number in range(brokers)]:
            broker = BrokerSettings(
                broker_name=name,
                listen_host="127.0.0.1",
                listen_port=0,
                vip_port_enable=False,
                namesrv_addr=cluster.namesrv,
                store_path_root_dir=str(folder / name),
            )
            cluster.brokers.append(await running.enter_async_context(Broker(machine, broker)))
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("orders", queues=queues)
        yield cluster
