"""Wait until the brokers of a cluster are registered at a nameserver that was restarted.

A broker that can't reach a nameserver tries again up to a second later. Until then clients find no broker there.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from staticfire.failover.routes import sets_at
from staticfire.protocol.errors import NetworkError
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.service import pause_between_looks

if TYPE_CHECKING:
    from staticfire.launch.processes import ProcessCluster

LOOK_MS = 20
# Longer than the longest pause of a broker. One that is frozen, or cut off by a fault rule, isn't waited for.
BACK_MS_MAX = 2_000


async def brokers_back(pool: ConnectionPool, cluster: "ProcessCluster", restarted: Iterable[str]) -> None:
    """Wait until all brokers that run are registered at the nameservers among these processes, but not for long."""
    addresses = cluster.plan.nameserver_addresses
    running = len(cluster.pids.keys() & {*cluster.plan.server_names})
    with suppress(TimeoutError):
        async with asyncio.timeout(BACK_MS_MAX / 1000):
            for name in restarted:
                if name in addresses:
                    await _registered(pool, addresses[name], running)


async def _registered(pool: ConnectionPool, nameserver: str, brokers: int) -> None:
    read, found = sets_at(pool, nameserver), 0
    while found < brokers:
        with suppress(NetworkError):
            found = sum(map(len, (await read()).values()))
        if found < brokers:
            await pause_between_looks(LOOK_MS)
