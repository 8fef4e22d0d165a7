"""`--failover auto`: the program that owns a cluster lets slaves take over from masters that are gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from staticfire.failover.replicas import ReplicaAdmin
from staticfire.failover.watch import FailoverWatch
from staticfire.runtime.client_machine import client_machine
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from staticfire.launch.embedded import EmbeddedCluster
    from staticfire.launch.processes import ProcessCluster


@asynccontextmanager
async def failing_over(cluster: "EmbeddedCluster | ProcessCluster") -> AsyncIterator[None]:
    """Watch the masters of a cluster in the background."""
    machine = client_machine(cluster.client_tls)
    pool = ConnectionPool(machine, credentials=cluster.credentials)

    async def pause(pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)  # house: the owner of a live cluster has no service to pause

    watch = FailoverWatch(ReplicaAdmin.at_nameservers(pool, cluster.namesrv), machine.clock.uptime_ms, pause)
    task = asyncio.get_running_loop().create_task(watch.loop(), name="failover")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.close()
        await machine.workers.close()
